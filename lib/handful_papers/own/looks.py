"""Looks of the methods of our own notebooks."""

from handful_papers.looks import BASELINES, EXTENSION, GREY, PALE, Looks, look

METHODS = Looks(
    BASELINES,
    {
        "stratified": look("Stratified", GREY, "s", "--"),
        "balanced": look("Class-balanced", PALE, "P", "-."),
        "for_estimator": look("BilevelCoreset.for_estimator (extension)", EXTENSION, "D", "-", zorder=6),
    },
)
