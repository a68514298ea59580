"""Looks of the methods of our own notebooks."""

from handful_papers.looks import BASELINES, EXTENSION, GREY, PALE, REPRODUCED, Looks, look

METHODS = Looks(
    BASELINES,
    {
        "stratified": look("Stratified", GREY, "s", "--"),
        "balanced": look("Class-balanced", PALE, "P", "-."),
        "for_estimator": look("AnyEstimatorCoreset (extension)", EXTENSION, "D", "-", zorder=6),
    },
)

BATCHES = Looks(
    BASELINES,
    {
        "by class": look("By class, no weights", PALE, "P", "-."),
        "fixed mixture": look("FixedMixture", GREY, "^", "--"),
        "mixture": look("MixtureSampler", REPRODUCED, "D", "-", zorder=6),
    },
)
