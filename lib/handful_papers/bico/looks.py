"""Looks of the methods of the bilevel paper."""

from handful_papers.looks import BASELINES, DARK, EXTENSION, GREY, LIGHT, PALE, REPRODUCED, SPARSE, Looks, look

# Methods of Table 3 that stand nowhere else, as it calls them
TABLE_3 = {
    "no replay": "Training w/o replay",
    "kmeans features": "k-means of features",
    "kmeans embeddings": "k-means of embeddings",
    "kmeans gradients": "k-means of grads",
    "kcenter features": "k-center of features",
    "kcenter embeddings": "k-center of embeddings",
    "kcenter gradients": "k-center of grads",
    "gradient matching": "Gradient matching",
    "max entropy": "Max entropy samples",
    "hardest": "Hardest samples",
    "frcl": "FRCL's selection",
    "icarl": "iCaRL's selection",
}
METHODS = Looks(
    BASELINES,
    {
        **{key: look(label, GREY, "o", ":") for key, label in TABLE_3.items()},
        "no coreset": look("No coreset", GREY, "o", ":"),
        "reservoir": look("Reservoir", GREY, "o", ":"),
        "cbrs": look("CBRS", PALE, "v", "-."),
        "coreset only": look("Train on coreset", REPRODUCED, "v", ":"),
        "forgetting": look("Forgetting", PALE, "X", "--"),
        "sensitivity": look("Sensitivity", PALE, "s", SPARSE),
        "random measurements": look("Random measurements", GREY, "o", ":"),
        "approximate greedy": look("Approximate greedy", PALE, "v", "-."),
        "bico": look("BiCo", REPRODUCED, "D", "--", zorder=4),
        "bico batches": look("BiCo Fwd 25", LIGHT, "v", "-.", zorder=4),
        "bico exchange": look("BiCo Exch", LIGHT, "P", ":", zorder=3),
        "bico elimination": look("BiCo Elim", DARK, "s", "--", zorder=3),
        "bico regularised": look("BiCo Reg", DARK, "*", "-", zorder=6),
        "bico weighted": look("BiCo w/ weights", DARK, "*", "-", zorder=4),
        "bico joint": look("BiCo, jointly with VGG16", LIGHT, "P", ":", zorder=5),
        "bico quadratic": look("BiCo, quadratic rule (extension)", EXTENSION, "D", "--", zorder=5),
        "bico robust": look("BiCo, robust (extension)", EXTENSION, "P", "-.", zorder=4),
        "bico weighted quadratic": look("BiCo w/ weights, quadratic rule (extension)", EXTENSION, "*", "-", zorder=6),
        "supervised": look("Supervised", GREY, "o", ":"),
        "supervised augmented": look("Supervised, augmented", GREY, "^", "--"),
        "mixmatch": look("MixMatch", GREY, "s", "-.", zorder=5),
        "max-entropy": look("Max-entropy", PALE, "^", "--", zorder=3),
        "consistency": look("Consistency", PALE, "s", SPARSE, zorder=3),
        "badge": look("BADGE", PALE, "P", "-.", zorder=3),
    },
)
