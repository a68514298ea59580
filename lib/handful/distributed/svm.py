"""The coreset of an SVM over dask: Algorithm 1 of "On Coresets for Support Vector Machines" in four passes."""

import dask
import numpy as np
from scipy import sparse

from handful.checks import as_generator, check_magnitude, signed_labels
from handful.distributed.chunks import DistributedCoreset, check_finite, delayed_chunks, first_rows
from handful.sensitivity.draws import multinomial_draw
from handful.sensitivity.svm import RULES, choose_clusters, sample_rows
from handful.sensitivity.svm_mixture import joined, mixture, moments, pulls
from handful.sensitivity.svm_partition import DenseRows, SparseRows
from handful.streaming import Node, concatenate
from handful.svm import LinearSVM, hinge_price
from handful.svm.kernels import design, feature_major


def svm_coreset(selector, X, y):
    """Algorithm 1 of "On Coresets for Support Vector Machines" (2020) over a dask collection, in four passes.

    1. Each chunk solves an SVM of its own. The objective is a sum over the chunks, of which each has its share of the
       regulariser, so the sum of their certified optima is a lower bound on the optimum of all. Each chunk also gives a
       sample of its classes, from which the centers of the clusters are chosen and, for ``rule="mixture"``, the rough
       solution is computed, and the moments of its rows.
    2. Each chunk assigns its points to the nearest centers; the sums give the weighted means of the clusters.
    3. Each chunk computes bounds on the sensitivities of its points and what the mixture adds, and their sums.
    4. The draws are split over the chunks in proportion to their probabilities, and made in each chunk.

    Parameters
    ----------
    selector : SVMCoreset with ``sampling="multinomial"``
    X, y : as in `merge_reduce`

    Returns
    -------
    DistributedCoreset

    Raises
    ------
    ValueError
        for systematic sampling, which needs all rows in one order, for data that `merge_reduce` refuses, and if every
        chunk holds one class only, so that there is no bound: shuffle the rows, or make the chunks larger
    """
    if selector.sampling != "multinomial":
        raise ValueError(
            f"svm_coreset draws independently: it needs sampling='multinomial', got {selector.sampling!r}; or use "
            "merge_reduce."
        )
    selector._check_parameters()
    seed = int(as_generator(selector.random_state).integers(2**32))
    chunks, run = delayed_chunks(X, y), dask.delayed
    starts, n = first_rows(chunks)
    l2, mixed = 1.0 / n if selector.l2 is None else selector.l2, selector.rule == "mixture"
    first = dask.compute(*[run(_first)(c, l2, selector.xi, n, mixed, seed, i) for i, c in enumerate(chunks)])
    classes, _ = signed_labels(np.concatenate([list(f["samples"]) for f in first]), "an SVM")
    constants = dict(total_weight=float(n), price=hinge_price(selector.l2, n), opt=sum(f["bound"] for f in first))
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
    sums = dask.compute(*[run(_sums)(c, centers) for c in chunks])
    clusters = {}
    for label in classes:
        weight = sum(s[label][1] for s in sums)
        clusters[label] = sum(s[label][0] for s in sums) / np.maximum(weight, 1)[:, None], weight
    third = [run(_sensitivities)(c, centers, clusters, bound, constants, rough, whole) for c in chunks]
    total_s, total_p = np.sum(dask.compute(*[run(np.sum)(t, axis=1) for t in third]), axis=0)
    q = [run(_probabilities)(t, total_s, total_p) for t in third]
    shares = np.array(dask.compute(*[run(np.sum)(part) for part in q]))
    counts = np.random.default_rng([seed, 2]).multinomial(selector.size, shares / shares.sum())
    drawn = [
        run(_draw)(c, part, int(count), selector.size, start, seed, i)
        for i, (c, part, count, start) in enumerate(zip(chunks, q, counts, starts))
        if count
    ]
    node = concatenate(list(dask.compute(*drawn)))
    return DistributedCoreset(node.X, node.y, node.weights, node.ids)


def _points(X):
    return SparseRows(X) if sparse.issparse(X) else DenseRows(feature_major(X, np.arange(len(X))))


def _first(chunk, l2, xi, n, mixed, seed, index):
    """Pass 1: the chunk's part of the lower bound, its moments, and samples of its classes that weigh as much as these.

    F is the sum over the chunks of s_j times the chunk's own objective at the same penalty per mean loss, s_j the
    share of the rows, so the sum of s_j times the optima of these SVMs is a lower bound on min F.
    """
    X, y = check_finite(chunk)
    check_magnitude(X.data if sparse.issparse(X) else X, "X", np.result_type(X.dtype, np.float32))
    share = len(y) / n
    out = dict(bound=0.0, samples={}, moments=None)
    if mixed and len(y):
        out["moments"] = moments(design(X), np.ones(len(y)))
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        some = rows[sample_rows(len(rows), np.random.default_rng([seed, 0, index]))]
        out["samples"][label] = Node(X[some], y[some], np.full(len(some), len(rows) / len(some)), some)
    if len(out["samples"]) == 2:
        out["bound"] = share * LinearSVM(l2=l2, tol=xi).fit(X, y).lower_bound_
    return out


def _parts(chunk, centers):
    """For each class in the chunk: the label, its rows, these rows as points, and the cluster of each."""
    X, y = chunk
    for label, where in centers.items():
        rows = np.flatnonzero(y == label)
        if len(rows):
            points = _points(X[rows])
            yield label, rows, points, points.nearest(where)


def _sums(chunk, centers):
    """Pass 2: for each class, the sums and the weights of its clusters."""
    d = chunk[0].shape[1]
    out = {label: (np.zeros((len(c), d)), np.zeros(len(c))) for label, c in centers.items()}
    for label, rows, points, labels in _parts(chunk, centers):
        means, weight = points.means(labels, np.ones(len(rows)), len(centers[label]))
        out[label] = means * weight[:, None], weight
    return out


def _sensitivities(chunk, centers, clusters, bound, constants, rough, whole):
    """Pass 3: the bound of every row of the chunk, and the pull of the mixture (0 for another rule); shape (2, n)."""
    X, y = chunk
    out = np.zeros((2, len(y)))
    for label, rows, points, labels in _parts(chunk, centers):
        means, weight = clusters[label]
        out[0, rows] = bound(points.distances(labels, means), np.ones(len(rows)), weight[labels], **constants)
    if rough is not None and len(y):
        margins = np.where(y == rough.classes_[1], 1.0, -1.0) * rough.decision_function(X)
        out[1] = pulls(design(X), np.ones(len(y)), margins, whole)
    return out


def _probabilities(third, total_sensitivity, total_pull):
    """The probabilities of the chunk's rows, which add up to its share of the draws."""
    return mixture(*third, total_sensitivity=total_sensitivity, total_pull=total_pull)


def _draw(chunk, q, count, size, start, seed, index):
    """Pass 4: `count` of the `size` independent draws, from the chunk with probabilities `q`."""
    rng = np.random.default_rng([seed, 3, index])
    chosen, weights = multinomial_draw(q / q.sum(), np.ones(len(q)), count, rng=rng)
    X, y = chunk
    # The weights of a draw are relative to the chunk's own total, and are turned into those of the whole data set.
    return Node(X[chosen], y[chosen], weights * (count / size / q.sum()), start + chosen)
