"""Looks of the methods of the paper on variance reduction with mixtures."""

from handful_papers.looks import BASELINES, GREY, PALE, REPRODUCED, Looks, look

METHODS = Looks(
    BASELINES,
    {
        "equal mixture": look("Equal mixture", GREY, "^", "--"),
        "vrb": look("VRB", PALE, "s", "-.", zorder=4),
        "vrm": look("VRM", REPRODUCED, "D", "-", zorder=6),
        "vrm, no truncation": look("VRM, no truncation (control)", REPRODUCED, "P", "-.", zorder=5),
    },
)
