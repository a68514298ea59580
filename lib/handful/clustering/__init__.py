"""Clustering: seeding, mini-batch k-means, variational EM for Gaussian mixtures."""

from handful.clustering.distances import quantization_error
from handful.clustering.medoids import Medoids
from handful.clustering.minibatch import MiniBatchKMeans
from handful.clustering.options import AFKMC2, PRINTED, TruncatedEM
from handful.clustering.vcgmm import VCGMM

__all__ = ["AFKMC2", "PRINTED", "VCGMM", "Medoids", "MiniBatchKMeans", "TruncatedEM", "quantization_error"]
