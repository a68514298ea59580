"""The coreset of an SVM over chunks: Algorithm 1 of "On Coresets for Support Vector Machines" in four passes."""

import numpy as np
from scipy import sparse

from handful.checks import MAX_SEED, signed_labels
from handful.distributed.draws import importance_draw
from handful.sensitivity.svm import RULES, SEEDED, choose_clusters, sample_rows
from handful.sensitivity.svm_mixture import joined, mixture, moments, pulls
from handful.sensitivity.svm_partition import DenseRows, SparseRows
from handful.streaming import Node, concatenate
from handful.svm import LinearSVM, hinge_price
from handful.svm.kernels import design, feature_major


def svm_coreset(selector, chunks, rng):
    """Algorithm 1 of "On Coresets for Support Vector Machines" (2020) over chunks, in four passes.

    1. Each chunk solves an SVM of its own. The objective is a sum over the chunks, of which each has its share of the
       regulariser, so the sum of their certified optima is a lower bound on the optimum of all. Each chunk also gives a
       sample of its classes, from which the centers of the clusters are chosen and, for ``rule="mixture"``, the rough
       solution is computed, and the moments of its rows.
    2. Each chunk assigns its points to the nearest centers; the sums give the weighted means of the clusters.
    3. Each chunk adds up bounds on the sensitivities of its points and what the mixture adds.
    4. The draws are split over the chunks in proportion to their probabilities, and made in each chunk.

    Parameters
    ----------
    selector : SVMCoreset with ``sampling="multinomial"``
    chunks : Chunks, with `class_counts`
    rng : numpy.random.Generator

    Returns
    -------
    indices, weights : the coreset, rows ascending

    Raises
    ------
    ValueError
        for systematic sampling, which needs all rows in one order, and if every chunk holds one class only, so that
        there is no bound: shuffle the rows, or make the chunks larger
    """
    selector._check_parameters()
    if selector.sampling != "multinomial":
        raise ValueError(
            "over dask data SVMCoreset draws independently: it needs sampling='multinomial', got "
            f"{selector.sampling!r}; or use MergeReduce(SVMCoreset(...))."
        )
    seed, total = int(rng.integers(MAX_SEED)), chunks.total
    classes, _ = signed_labels(np.array(list(chunks.label_counts)), "an SVM")
    l2, mixed = 1.0 / total if selector.l2 is None else selector.l2, selector.rule == "mixture"
    most = min(SEEDED, max(4, 2 * SEEDED // len(chunks)))  # rows of a class in a chunk's sample: all of them come here
    first = chunks.map(_first, classes, l2, selector.xi, total, mixed, seed, most)
    constants = dict(total_weight=total, price=hinge_price(selector.l2, total), opt=sum(f["bound"] for f in first))
    if not constants["opt"] > 0:
        raise ValueError(
            "every chunk holds one class only, so their optima give no bound; shuffle the rows, or make chunks larger."
        )
    rng = np.random.default_rng([seed, 1])
    bound = RULES[selector.rule]
    samples = {label: concatenate([f["samples"][label] for f in first if label in f["samples"]]) for label in classes}
    centers = {
        label: choose_clusters(selector.n_clusters, _points(sample.X), sample.weights, bound, constants, rng)[1]
        for label, sample in samples.items()
    }
    rough = whole = None
    if mixed:
        sample = concatenate(list(samples.values()))
        rough = LinearSVM(l2=l2, tol=selector.xi).fit(sample.X, sample.y, sample_weight=sample.weights)
        whole = joined([f["moments"] for f in first if f["moments"] is not None])
    sums = chunks.reduce(_sums, centers)
    clusters = {}
    for label, product, weight in zip(centers, sums[::2], sums[1::2]):
        clusters[label] = product / np.where(weight > 0, weight, 1.0)[:, None], weight
    shared = centers, clusters, bound, constants, rough, whole
    third = np.array(chunks.map(_totals, *shared))
    totals = third.sum(axis=0)
    shares = mixture(*third.T, total_sensitivity=totals[0], total_pull=totals[1])
    return importance_draw(chunks, _probabilities, (*shared, *totals), selector.size, rng, shares=shares)


def _points(X):
    return SparseRows(X) if sparse.issparse(X) else DenseRows(feature_major(X, np.arange(len(X))))


def _first(chunk, classes, l2, xi, total, mixed, seed, most):
    """Pass 1: the chunk's part of the lower bound, its moments, and samples of its classes that weigh as much as these.

    F is the sum over the chunks of s_j times the chunk's own objective at the same penalty per mean loss, s_j the
    share of the weights, so the sum of s_j times the optima of these SVMs is a lower bound on min F.
    """
    out = dict(bound=0.0, samples={}, moments=None)
    present = np.flatnonzero(chunk.weights > 0)
    X, y, u = chunk.X[present], chunk.y[present], chunk.weights[present]
    if mixed and len(u):
        out["moments"] = moments(design(X), u)
    for label in classes:
        rows = np.flatnonzero(y == label)
        if len(rows):
            some = rows[sample_rows(len(rows), np.random.default_rng([seed, 0, chunk.index]), most)]
            out["samples"][label] = Node(X[some], y[some], u[some] * (u[rows].sum() / u[some].sum()), some)
    if len(out["samples"]) == 2:
        out["bound"] = u.sum() / total * LinearSVM(l2=l2, tol=xi).fit(X, y, sample_weight=u).lower_bound_
    return out


def _parts(chunk, centers):
    """For each class in the chunk: the label, its rows, these rows as points, and the cluster of each."""
    for label, where in centers.items():
        rows = np.flatnonzero((chunk.y == label) & (chunk.weights > 0))
        if len(rows):
            points = _points(chunk.X[rows])
            yield label, rows, points, points.nearest(where)


def _sums(chunk, centers):
    """Pass 2: for each class, the sums and the weights of its clusters."""
    d = chunk.X.shape[1]
    out = {label: (np.zeros((len(c), d)), np.zeros(len(c))) for label, c in centers.items()}
    for label, rows, points, labels in _parts(chunk, centers):
        means, weight = points.means(labels, chunk.weights[rows], len(centers[label]))
        out[label] = means * weight[:, None], weight
    return tuple(values for pair in out.values() for values in pair)


def _sensitivities(chunk, centers, clusters, bound, constants, rough, whole):
    """The bound of every row of the chunk, and the pull of the mixture (0 for another rule); shape (2, n)."""
    out = np.zeros((2, len(chunk)))
    for label, rows, points, labels in _parts(chunk, centers):
        means, weight = clusters[label]
        out[0, rows] = bound(points.distances(labels, means), chunk.weights[rows], weight[labels], **constants)
    if rough is not None and len(chunk):
        margins = np.where(chunk.y == rough.classes_[1], 1.0, -1.0) * rough.decision_function(chunk.X)
        out[1] = pulls(design(chunk.X), chunk.weights, margins, whole)
    return out


def _totals(chunk, *shared):
    """Pass 3: the sums of both over the chunk."""
    return _sensitivities(chunk, *shared).sum(axis=1)


def _probabilities(chunk, *shared):
    """Pass 4: the probabilities of the chunk's rows, which add up to its share of the draws."""
    third, (total_sensitivity, total_pull) = _sensitivities(chunk, *shared[:-2]), shared[-2:]
    return mixture(*third, total_sensitivity=total_sensitivity, total_pull=total_pull)
