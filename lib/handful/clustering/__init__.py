"""Clustering: seeding, Lloyd, mini-batch k-means, variational EM for Gaussian mixtures."""

from handful.clustering.minibatch import MiniBatchKMeans
from handful.clustering.vcgmm import VCGMM

__all__ = ["VCGMM", "MiniBatchKMeans"]
