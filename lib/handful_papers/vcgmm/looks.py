"""Looks of the methods of the clustering paper."""

from handful_papers.looks import BASELINES, BLACK, EXTENSION, GREY, PALE, REPRODUCED, Looks, look

METHODS = Looks(
    BASELINES,
    {
        "afkmc2": look("AFK-MC²", PALE, "v", "-."),
        "lwcs": look("k-means on LWCS", GREY, "s", "--", zorder=4),
        "vargmm": look("var-GMM-S", REPRODUCED, "P", "-.", zorder=4),
        "vcgmm": look("vc-GMM", REPRODUCED, "D", "-", zorder=6),
        "vcgmm ours": look("vc-GMM, greedy seeds, moves (extension)", EXTENSION, "*", (0, (3, 1, 1, 1)), zorder=7),
        "vcgmm hard": look("vc-GMM, hard assignments (extension)", EXTENSION, "P", (0, (3, 1, 1, 1)), zorder=7),
        "vcgmm hardened": look("vc-GMM, soft, then hard (extension)", EXTENSION, "X", (0, (3, 1, 1, 1)), zorder=7),
        # What a user would pick instead.
        "sklearn lloyd": look("scikit-learn (Lloyd)", GREY, "<", ""),
        "sklearn elkan": look("scikit-learn (Elkan)", GREY, ">", ""),
        "minibatch": look("MiniBatchKMeans", GREY, "x", ""),
        "faiss": look("faiss", BLACK, "+", ""),
    },
)
