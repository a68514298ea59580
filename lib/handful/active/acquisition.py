"""Acquisition functions: which points of an unlabelled pool should be labelled next?"""

from abc import abstractmethod

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from handful.checks import as_generator, check_integer

SUM_TOLERANCE = 1e-3  # by which probabilities in float32 may miss a sum of one


class Acquisition(BaseEstimator):
    """Base class: checks what a model says of the pool, then asks the subclass's `_query` for points.

    All acquisition functions are asked in the same way, ``query(n, features=..., probabilities=..., ...)``, and each
    takes from it what it needs; any model will do that gives probabilities, any features that suit the data.
    """

    _needs = ()  # of "features", "probabilities", "labelled", "labels"
    _needs_variants = False  # probabilities of several augmentations
    _sums = True  # whether it computes with `labelled`

    def query(self, n, *, features=None, probabilities=None, labelled=None, labels=None, classes=None, n_pool=None):
        """The `n` points of the pool to label next.

        Parameters
        ----------
        n : int, points to label
        features : shape (pool, d), of the pool's points: embeddings, or features of a proxy
        probabilities : shape (pool, classes), what a model predicts of them; or (variants, pool, classes), what it
            predicts of augmented variants of them
        labelled : shape (l, d), the same features of the points that are labelled already; for `BilevelQuery` also
            (l, variants, d), those of augmented variants
        labels : their labels, shape (l,)
        classes : labels of the columns of `probabilities`, in order (a scikit-learn model's ``classes_``); column
            numbers if left out
        n_pool : int, size of the pool, where nothing else says it

        Returns
        -------
        int array, shape (n,) : distinct rows of the pool, in the order of choice

        Raises
        ------
        ValueError
            for an empty pool, an `n` outside 1..pool, probabilities that are negative or do not add up to one, arrays
            that do not fit each other, labels that no column stands for, and where something it needs is missing.
        """
        given = dict(features=features, probabilities=probabilities, labelled=labelled, labels=labels)
        name = type(self).__name__
        for needed in self._needs:
            if given[needed] is None:
                raise ValueError(f"{name} needs {needed}: {WHAT[needed]}.")
        if features is not None:
            features = _rows(features, "features")
        if probabilities is not None:
            probabilities = _probabilities(probabilities)
            if self._needs_variants and len(probabilities) < 2:
                raise ValueError(
                    f"{name} compares predictions of augmented variants: probabilities must have shape (variants, "
                    f"pool, classes) with at least 2 variants, got {len(probabilities)}."
                )
        pool = _pool_size(features, probabilities, n_pool)
        check_integer("n", n, most=pool, why="more points than the pool has cannot be chosen")
        if labelled is not None:
            labelled = _labelled(labelled, features)
        if labels is not None:
            labels = _columns(labels, probabilities, classes)
            if labelled is not None and len(labels) != len(labelled):
                raise ValueError(
                    f"labels must have one label for each of {len(labelled)} labelled points, got {len(labels)}."
                )
        chosen = self._query(int(n), pool, features, probabilities, labelled, labels)
        return np.asarray(chosen, dtype=np.intp)

    @abstractmethod
    def _query(self, n, pool, features, probabilities, labelled, labels):
        """Rows of the pool; arrays are checked, probabilities have three axes, labels are columns."""


WHAT = {
    "features": "embeddings of the pool's points under the model, shape (pool, d)",
    "probabilities": "what the model predicts of the pool's points, shape (pool, classes)",
    "labelled": "the same features of the labelled points, shape (l, d)",
    "labels": "labels of the labelled points, shape (l,)",
}


def _rows(values, name):
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    values = np.asarray(values)
    if values.ndim >= 1 and len(values) == 0:
        raise ValueError(f"{name} is empty: there is nothing left in the pool to label.")
    return check_array(values, dtype=[np.float64, np.float32], input_name=name)


def _probabilities(values):
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    P = np.asarray(values)
    if P.dtype.kind not in "fiub":
        raise ValueError(f"probabilities must be numbers, got dtype {P.dtype}.")
    P = P.astype(np.float64, copy=False)
    P = P[None] if P.ndim == 2 else P
    if P.ndim != 3 or P.shape[2] < 2:
        raise ValueError(
            "probabilities must have shape (pool, classes) or (variants, pool, classes) with at least 2 classes, got "
            f"{np.shape(values)}."
        )
    if P.shape[0] == 0 or P.shape[1] == 0:
        raise ValueError("probabilities is empty: there is nothing left in the pool to label.")
    if not np.isfinite(P).all() or P.min() < 0:
        raise ValueError(f"probabilities must be finite and at least 0, got a least value of {P.min():.3g}.")
    sums = P.sum(axis=2)
    if np.abs(sums - 1.0).max() > SUM_TOLERANCE:
        worst = int(np.abs(sums - 1.0).max(axis=0).argmax())
        raise ValueError(
            f"probabilities must add up to 1 in every row, those of row {worst} add up to "
            f"{sums[np.abs(sums[:, worst] - 1).argmax(), worst]:.4g}; logits go through a softmax first."
        )
    return P / sums[:, :, None]


def _pool_size(features, probabilities, n_pool):
    sizes = {
        "features": None if features is None else len(features),
        "probabilities": None if probabilities is None else probabilities.shape[1],
        "n_pool": n_pool,
    }
    sizes = {name: size for name, size in sizes.items() if size is not None}
    if not sizes:
        raise ValueError("the size of the pool is not known: give features, probabilities or n_pool.")
    if len(set(sizes.values())) > 1:
        raise ValueError("the pool has one size only, got " + ", ".join(f"{s} by {k}" for k, s in sizes.items()) + ".")
    size = next(iter(sizes.values()))
    check_integer("n_pool", size)
    return size


def _labelled(values, features):
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    values = np.asarray(values)
    if values.ndim not in (2, 3):
        raise ValueError(f"labelled must have shape (l, d) or (l, variants, d), got {values.shape}.")
    if features is not None and values.shape[-1] != features.shape[1]:
        raise ValueError(
            f"labelled and features must have rows of the same length, got {values.shape[-1]} and {features.shape[1]}."
        )
    if values.size and not np.isfinite(values).all():
        raise ValueError("labelled holds values that are not finite.")
    return values


def _columns(labels, probabilities, classes):
    # labels as columns of the probabilities
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must have shape (l,), got {labels.shape}.")
    if classes is None:
        if len(labels) and labels.dtype.kind not in "iu":
            raise ValueError(f"labels of dtype {labels.dtype} need classes, the labels of the probabilities' columns.")
        classes = np.arange(labels.max(initial=-1) + 1 if probabilities is None else probabilities.shape[2])
    classes = np.asarray(classes)
    if probabilities is not None and len(classes) != probabilities.shape[2]:
        raise ValueError(
            f"classes must name {probabilities.shape[2]} columns of the probabilities, got {len(classes)}."
        )
    place = {label: column for column, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in place})
    if unknown:
        raise ValueError(
            f"labels holds {', '.join(unknown)}, for which the probabilities have no column (they have "
            f"{', '.join(map(str, classes.tolist()))}): give the model a column for every class, of zeros where it has "
            "not seen the class."
        )
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)


def _largest(scores, n):
    # ties go to the smaller index
    return np.argsort(-scores, kind="stable")[:n]


class UniformQuery(Acquisition):
    """Points drawn uniformly.

    Parameters
    ----------
    random_state : None, int or Generator

    Examples
    --------
    >>> UniformQuery(random_state=0).query(3, n_pool=100).shape
    (3,)
    """

    def __init__(self, *, random_state=None):
        self.random_state = random_state

    def _query(self, n, pool, features, probabilities, labelled, labels):
        return as_generator(self.random_state).choice(pool, n, replace=False)


class MaxEntropy(Acquisition):
    """The points of which the model is least certain: the largest entropy of its prediction.

    Predictions of several variants are averaged first, as in Borsos et al. (2024), who take two.

    Examples
    --------
    >>> MaxEntropy().query(1, probabilities=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    array([1])
    """

    _needs = ("probabilities",)

    def _query(self, n, pool, features, probabilities, labelled, labels):
        P = probabilities.mean(axis=0)
        return _largest(-np.sum(P * np.log(np.maximum(P, np.finfo(float).tiny)), axis=1), n)


class Consistency(Acquisition):
    """The points of which the model predicts different things when they are augmented (Gao et al. 2019).

    The score is the variance over the variants, summed over the classes. Borsos et al. (2024) take five variants.

    Examples
    --------
    >>> steady, wavering = [0.5, 0.5], [0.9, 0.1]
    >>> Consistency().query(1, probabilities=[[steady, wavering], [steady, wavering[::-1]]])
    array([1])
    """

    _needs = ("probabilities",)
    _needs_variants = True

    def _query(self, n, pool, features, probabilities, labelled, labels):
        return _largest(probabilities.var(axis=0).sum(axis=1), n)


class KCenterQuery(Acquisition):
    """The points that cover the pool best: always the one farthest from everything labelled or chosen.

    Greedy k-center in the model's last layer (Sener and Savarese 2018). Without labelled points a random one begins.

    Parameters
    ----------
    random_state : None, int or Generator

    Examples
    --------
    >>> KCenterQuery().query(2, features=[[0.0], [1.0], [5.0], [9.0]], labelled=[[0.0]])
    array([3, 2])
    """

    _needs = ("features",)

    def __init__(self, *, random_state=None):
        self.random_state = random_state

    def _query(self, n, pool, features, probabilities, labelled, labels):
        X = features.astype(np.float64)
        sq_norm = np.einsum("ij,ij->i", X, X)
        nearest = np.full(pool, np.inf)
        if labelled is not None and labelled.size:
            for centre in labelled.reshape(-1, labelled.shape[-1]).astype(np.float64):
                np.minimum(nearest, sq_norm - 2 * (X @ centre) + centre @ centre, out=nearest)
            chosen = [int(np.argmax(nearest))]
        else:
            chosen = [int(as_generator(self.random_state).integers(pool))]
        while len(chosen) < n:
            last = chosen[-1]
            np.minimum(nearest, np.maximum(sq_norm - 2 * (X @ X[last]) + sq_norm[last], 0.0), out=nearest)
            nearest[chosen] = -np.inf
            chosen.append(int(np.argmax(nearest)))
        return chosen


class Badge(Acquisition):
    """Points whose last-layer gradients are large and differ (Ash et al. 2020).

    k-means++ seeding of the gradients that the points would have if the model's guess were right:
    ``(p - onehot(argmax p)) x h`` for probabilities p and embedding h. They are never formed: inner products of two of
    them are products of two inner products.

    Parameters
    ----------
    random_state : None, int or Generator

    Examples
    --------
    >>> P = [[0.99, 0.01], [0.4, 0.6], [0.45, 0.55]]
    >>> Badge(random_state=0).query(2, features=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], probabilities=P)
    array([2, 1])
    """

    _needs = ("features", "probabilities")

    def __init__(self, *, random_state=None):
        self.random_state = random_state

    def _query(self, n, pool, features, probabilities, labelled, labels):
        rng = as_generator(self.random_state)
        H = features.astype(np.float64)
        R = probabilities.mean(axis=0)
        R[np.arange(pool), R.argmax(axis=1)] -= 1.0
        sq_norm = np.einsum("ij,ij->i", H, H) * np.einsum("ij,ij->i", R, R)
        chosen = [int(np.argmax(sq_norm))]  # as the authors' code; the paper draws the first
        nearest = np.full(pool, np.inf)
        while len(chosen) < n:
            last = chosen[-1]
            inner = (H @ H[last]) * (R @ R[last])
            np.minimum(nearest, np.maximum(sq_norm - 2 * inner + sq_norm[last], 0.0), out=nearest)
            nearest[chosen] = 0.0
            total = nearest.sum()
            if total > 0:
                chosen.append(int(rng.choice(pool, p=nearest / total)))
            else:  # the rest has the gradients of those chosen: any is as good
                chosen.append(int(rng.choice(np.setdiff1d(np.arange(pool), chosen))))
        return chosen
