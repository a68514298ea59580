"""Acquisition functions: rules for which points of an unlabelled pool are labelled next."""

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import entr
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import column_or_1d
from sklearn.utils.extmath import row_norms

from handful.active.reach import within_reach
from handful.baselines.centers import farthest_first
from handful.checks import (
    MAX_SEED,
    as_generator,
    check_array,
    check_in_memory,
    check_integer,
    check_labels,
    check_rows,
)
from handful.options import Count, Options, check_options
from handful.scales import warn_of_scales
from handful.tables import as_array, dense, join_rows, n_rows_of
from handful.types import Seed

# how far from 1 the sum of a row of probabilities may be, as rounding to bfloat16 needs
SUM_TOLERANCE = 2.0**-8
BATCH = "a batch has at least one point, and no more than the pool has"
WHAT = {
    "features": "embeddings of the pool's points under the model, shape (pool, d)",
    "probabilities": "what the model predicts of the pool's points, shape (pool, classes)",
    "labelled": "the same features of the labelled points, shape (l, d)",
    "labels": "labels of the labelled points, shape (l,)",
}


class Acquisition(Options):
    """Base class: checks what is known of the pool, then asks the subclass's `_query` for points.

    All acquisition functions have one call, ``query(n, features=..., probabilities=..., ...)``, of
    which each uses what it needs. The probabilities may come from any model, and the features may
    be any that suit the data.
    """

    # keys of WHAT
    _needs: ClassVar[tuple[str, ...]] = ()
    _elsewhere = dict.fromkeys(
        ("batch_size", "n", "n_points", "size"), "the number of points is n of query(n, ...)"
    )

    def query(
        self,
        n,
        *,
        features=None,
        probabilities=None,
        labelled=None,
        labels=None,
        classes=None,
        n_pool=None,
    ):
        """The `n` points of the pool to label next.

        Parameters
        ----------
        n : int, points to label
        features : array or sparse matrix, shape (pool, d), of the points in the pool: embeddings,
            features of a proxy, or counts of words
        probabilities : shape (pool, classes), what a model predicts of these points; or (variants,
            pool, classes), what it predicts of augmented variants of them
        labelled : array or sparse matrix, shape (l, d), the same features of the labelled points;
            for `BilevelQuery` also (l, variants, d), the features of their augmented variants
        labels : shape (l,), of the labelled points; what they are is looked at by `BilevelQuery`
            only
        classes : the label of each column of `probabilities` (``classes_`` of a scikit-learn
            model); None: 0, 1, ...
        n_pool : int, size of the pool; needed only where `features` and `probabilities` are not
            given

        Returns
        -------
        int array, shape (n,) : distinct rows of the pool, in the order of choice

        Raises
        ------
        ValueError
            for an empty pool, an `n` outside 1..pool, probabilities that are negative or do not add
            up to one, arrays that do not fit each other, labels without a column, and where
            something that is needed is missing.
        """
        check_options(self)
        check_in_memory(type(self).__name__, features, probabilities, labelled, labels)
        given = dict(
            features=features, probabilities=probabilities, labelled=labelled, labels=labels
        )
        for needed in self._needs:
            if given[needed] is None:
                raise ValueError(f"{type(self).__name__} needs {needed}: {WHAT[needed]}.")
        if features is not None:
            features = _rows(features, "features")
            if "features" in self._needs:
                name = type(self).__name__
                way_out = "Scale them first: StandardScaler().fit_transform(features)."
                warn_of_scales(features, name, way_out)
        if probabilities is not None:
            probabilities = _probabilities(probabilities)
        pool = _pool_size(features, probabilities, n_pool)
        check_integer("n", n, most=pool, why=BATCH)
        if labelled is not None:
            labelled = _labelled(labelled, features)
        if labels is not None:
            if "labels" in self._needs:
                labels = _columns(labels, probabilities, classes)
            n_labels = n_rows_of(labels)
            if labelled is not None and n_labels != labelled.shape[0]:
                raise ValueError(
                    f"labels must have one label for each of {labelled.shape[0]} labelled points, "
                    f"got {n_labels}."
                )
        return np.asarray(
            self._query(int(n), pool, features, probabilities, labelled, labels), dtype=np.intp
        )

    @abstractmethod
    def _query(self, n, pool, features, probabilities, labelled, labels):
        """`n` rows of the pool, of checked input: `probabilities` has three axes, `labels` holds
        column numbers where `_needs` names it, and else what was given.

        Sparse `features` are CSR, and so is `labelled` beside them, unless it holds variants.
        """


def _rows(values, name):
    values = values if sparse.issparse(values) else as_array(values)
    if values.shape[:1] == (0,):
        raise ValueError(f"{name} is empty: there is nothing left in the pool to label.")
    return check_rows(values, name, accept_sparse="csr")


def _probabilities(values):
    # With three axes, the variants first; rows add up to one exactly.
    P = np.asarray(as_array(values), dtype=np.float64)
    P = P[None] if P.ndim == 2 else P
    if P.ndim != 3 or P.shape[2] < 2:
        raise ValueError(
            "probabilities must have shape (pool, classes) or (variants, pool, classes) with at "
            f"least 2 classes, as predict_proba gives them, got {np.shape(values)}."
        )
    if P.size == 0:
        raise ValueError("probabilities is empty: there is nothing left in the pool to label.")
    sums = P.sum(axis=2, keepdims=True)
    # so that NaN is refused, too
    if not (P.min() >= 0 and np.abs(sums - 1.0).max() <= SUM_TOLERANCE):
        raise ValueError(
            "probabilities must be at least 0 and add up to 1 in every row, got values from "
            f"{P.min():.3g} on and sums "
            f"from {sums.min():.4g} to {sums.max():.4g}; take the softmax of logits first."
        )
    return P / sums


def _pool_size(features, probabilities, n_pool):
    sizes = {} if features is None else {"features": features.shape[0]}
    sizes |= {} if probabilities is None else {"probabilities": probabilities.shape[1]}
    sizes |= {} if n_pool is None else {"n_pool": n_pool}
    if len(set(sizes.values())) != 1:
        got = (
            ", ".join(f"{size} by {name}" for name, size in sizes.items())
            or "no features, probabilities or n_pool"
        )
        raise ValueError(f"the pool has one size only, got {got}.")
    size = next(iter(sizes.values()))
    check_integer("n_pool", size)
    return size


def _labelled(values, features):
    values = check_array(
        values, allow_nd=True, accept_sparse="csr", ensure_min_samples=0, input_name="labelled"
    )
    if values.ndim > 3 or (features is not None and values.shape[-1] != features.shape[1]):
        d = "d" if features is None else features.shape[1]
        raise ValueError(
            f"labelled must have shape (l, {d}) or (l, variants, {d}) as features, got "
            f"{values.shape}."
        )
    if sparse.issparse(features):
        return sparse.csr_array(values) if values.ndim == 2 else values
    return dense(values)


def _columns(labels, probabilities, classes):
    # The column of the probabilities that each label stands for.
    check_labels(labels, "the argument labels")
    labels = column_or_1d(as_array(labels))
    if classes is None:
        if len(labels) and labels.dtype.kind not in "iu":
            raise ValueError(
                f"labels of dtype {labels.dtype} need classes, the labels of the probabilities' "
                "columns."
            )
        classes = range(
            labels.max(initial=-1) + 1 if probabilities is None else probabilities.shape[2]
        )
    place = {label: column for column, label in enumerate(np.asarray(classes).tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in place})
    if unknown or (probabilities is not None and len(place) != probabilities.shape[2]):
        raise ValueError(
            f"classes must name each column of the probabilities, got {list(place)}"
            + (f", and labels holds {', '.join(unknown)}" if unknown else "")
            + ": a class that the model has not seen needs a column of zeros."
        )
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)


def _largest(scores, n):
    # ties go to the smaller index
    return np.argsort(-scores, kind="stable")[:n]


def _kmeans(rows, n_clusters, n_init, rng):
    # here, as importing it takes a while
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        # fewer different points than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_clusters, n_init=n_init, random_state=int(rng.integers(MAX_SEED))).fit(rows)


class RandomAcquisition(Acquisition):
    """Base class of those that draw."""

    _: KW_ONLY
    random_state: Seed = None


class UniformQuery(RandomAcquisition):
    """Points drawn uniformly.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Examples
    --------
    >>> UniformQuery(random_state=0).query(3, n_pool=100).shape
    (3,)
    """

    def _query(self, n, pool, features, probabilities, labelled, labels):
        return as_generator(self.random_state).choice(pool, n, replace=False)


class MaxEntropyQuery(Acquisition):
    """The points of which the model is least certain: the largest entropy of its prediction.

    Predictions of several variants are averaged first, as in Borsos et al. (2024), who take two.

    Examples
    --------
    >>> MaxEntropyQuery().query(1, probabilities=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    array([1])
    """

    _needs = ("probabilities",)

    def _query(self, n, pool, features, probabilities, labelled, labels):
        return _largest(entr(probabilities.mean(axis=0)).sum(axis=1), n)


class KCenterQuery(RandomAcquisition):
    """The points that cover the pool: each the farthest from everything that is labelled or chosen
    before it.

    Greedy k-center in the model's last layer (Sener and Savarese 2018). Without labelled points the
    first is random.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Examples
    --------
    >>> KCenterQuery().query(2, features=[[0.0], [1.0], [5.0], [9.0]], labelled=[[0.0]])
    array([3, 2])
    """

    _needs = ("features",)

    def _query(self, n, pool, features, probabilities, labelled, labels):
        covered = () if labelled is None else _one_variant_a_row(labelled)
        return farthest_first(features, n, rng=as_generator(self.random_state), covered=covered)


class KMeansQuery(RandomAcquisition):
    """The most typical points: one from each cluster of the pool, where nothing or little is
    labelled yet.

    k-means finds as many clusters as there are points to choose and labelled ones, and the point
    nearest to the center of a cluster is chosen, if no labelled point lies in it (Kang, Ryu and
    Kwon 2004, who begin with no label; Hacohen, Dekel and Weinshall 2022 leave out the clusters of
    labelled points). The largest clusters come first. Where points are equal, so that there are
    fewer clusters, `KCenterQuery` fills the batch. Points farther than twice the usual distance
    from the pool's median count as if they were there: an outlier is no cluster.

    Parameters
    ----------
    n_init : int, default=3
        Runs of k-means, of which the best counts.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Examples
    --------
    >>> pool = [[0.0], [1.0], [2.0], [8.0], [9.0], [10.0], [20.0]]
    >>> KMeansQuery(random_state=0).query(3, features=pool)
    array([1, 4, 6])
    >>> KMeansQuery(random_state=0).query(2, features=pool, labelled=[[1.5]])
    array([4, 6])
    """

    _: KW_ONLY
    n_init: Count = 3

    _needs = ("features",)

    def _query(self, n, pool, features, probabilities, labelled, labels):
        rng = as_generator(self.random_state)
        rows = features
        pulled = within_reach(features)
        # of several variants of a labelled point their mean
        if labelled is not None and labelled.shape[0]:
            known = labelled if labelled.ndim == 2 else labelled.mean(axis=1)
            rows = join_rows(
                [features, sparse.csr_array(known) if sparse.issparse(features) else known]
            )
        rows = pulled(rows)
        if not sparse.issparse(rows):
            rows = rows - features.mean(axis=0)
        distances = _kmeans(rows, n + rows.shape[0] - pool, self.n_init, rng).transform(rows)
        cluster = distances.argmin(axis=1)
        distance = distances.min(axis=1)
        free, sizes = np.unique(
            cluster[:pool][~np.isin(cluster[:pool], cluster[pool:])], return_counts=True
        )
        members = [
            np.flatnonzero(cluster[:pool] == c) for c in free[np.argsort(-sizes, kind="stable")[:n]]
        ]
        chosen = [int(of[np.argmin(distance[of])]) for of in members]
        if len(chosen) < n:
            rest = np.setdiff1d(np.arange(pool), chosen)
            covered = join_rows([rows[chosen], rows[pool:]])
            chosen += rest[
                farthest_first(rows[rest], n - len(chosen), rng=rng, covered=covered)
            ].tolist()
        return chosen


class ClusterMarginQuery(RandomAcquisition):
    """Points of which the model is unsure, from different groups (Citovsky et al. 2021): the rule
    to start with.

    Of the `factor` times n points with the smallest margin, the difference of the two largest
    probabilities, k-means makes n groups, and these take turns in giving their point of least
    margin, the smallest group first. Citovsky et al. group the whole pool once, by average linkage,
    which takes the square of its size, and draw within a group.

    Parameters
    ----------
    factor : int, default=10
        Unsure points for each point of the batch; Citovsky et al.: 10.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Examples
    --------
    >>> P = [[0.51, 0.49], [0.52, 0.48], [0.6, 0.4], [0.99, 0.01]]  # the first two are alike
    >>> features = [[0.0], [0.1], [1.0], [1.1]]
    >>> ClusterMarginQuery(random_state=0).query(2, features=features, probabilities=P)
    array([0, 2])
    """

    _: KW_ONLY
    factor: Count = 10

    _needs = ("features", "probabilities")

    def _query(self, n, pool, features, probabilities, labelled, labels):
        second, first = np.partition(probabilities.mean(axis=0), -2, axis=1)[:, -2:].T
        unsure = _largest(second - first, self.factor * n)
        group = _kmeans(
            within_reach(features)(features[unsure]), n, 3, as_generator(self.random_state)
        ).labels_
        # how many of the group come before
        turn = np.tril(group[:, None] == group, -1).sum(axis=1)
        return unsure[np.lexsort([np.bincount(group)[group], turn])[:n]]


def _one_variant_a_row(labelled):
    return labelled if labelled.ndim == 2 else labelled.reshape(-1, labelled.shape[-1])


class Badge(RandomAcquisition):
    """Points whose last-layer gradients are large and differ (Ash et al. 2020).

    k-means++ seeding of the gradients that the points would have if the model's guess were right:
    the outer products ``(p - onehot(argmax p)) h^T`` for probabilities p and embedding h. An inner
    product of two of them is a product of two inner products, so they are never formed.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Examples
    --------
    >>> P = [[0.99, 0.01], [0.4, 0.6], [0.45, 0.55]]
    >>> features = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> Badge(random_state=0).query(2, features=features, probabilities=P)
    array([2, 1])
    """

    _needs = ("features", "probabilities")

    def _query(self, n, pool, features, probabilities, labelled, labels):
        rng = as_generator(self.random_state)
        H = features.astype(np.float64)
        R = probabilities.mean(axis=0)
        R[np.arange(pool), R.argmax(axis=1)] -= 1.0
        sq_norm = row_norms(H, squared=True) * np.einsum("ij,ij->i", R, R)
        # as the authors' code; the paper draws the first
        chosen = [int(np.argmax(sq_norm))]
        nearest = np.full(pool, np.inf)
        while len(chosen) < n:
            last = chosen[-1]
            inner = (H @ dense(H[[last]])[0]) * (R @ R[last])
            np.minimum(nearest, np.maximum(sq_norm - 2 * inner + sq_norm[last], 0.0), out=nearest)
            nearest[chosen] = 0.0
            total = nearest.sum()
            if total > 0:
                chosen.append(int(rng.choice(pool, p=nearest / total)))
            else:
                # every gradient left equals one that was chosen, so any point will do
                chosen.append(int(rng.choice(np.setdiff1d(np.arange(pool), chosen))))
        return chosen
