"""Clustering: seeding, mini-batch k-means, variational EM for Gaussian mixtures."""

from handful.clustering.medoids import Medoids
from handful.clustering.minibatch import MiniBatchKMeans
from handful.clustering.quantization import quantization_error
from handful.clustering.vcgmm import VCGMM

__all__ = ["VCGMM", "Medoids", "MiniBatchKMeans", "quantization_error"]
