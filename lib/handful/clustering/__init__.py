"""Clustering: seeding, Lloyd, mini-batch k-means, variational EM for Gaussian mixtures."""
