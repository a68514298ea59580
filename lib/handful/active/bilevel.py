"""The bilevel acquisition: points on which training, with those labelled, does best on everything
(Equation 10)."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from handful.active.acquisition import Acquisition
from handful.active.reach import within_reach
from handful.bilevel.strategy import best_rows
from handful.checks import ConvergenceError
from handful.models import Logistic
from handful.models.base import OuterRows
from handful.models.glm import GLM
from handful.models.inverse import IHVP
from handful.options import named_option
from handful.running import warn

# up to here it is raised where the inner problem does not converge
MOST_PENALTY = 1.0


class BilevelQuery(Acquisition):
    """The coreset of the pool that, joined to the labelled points, trains best (Borsos et al. 2024,
    Section 4.3).

    The inner problem trains multinomial logistic regression on the labelled points and those
    selected so far. The outer loss is that of the trained model on all labelled points and on the
    whole pool, with the soft labels that the user's model predicts (`probabilities`, averaged over
    its variants). Points join one at a time, each the one with the smallest implicit gradient
    (Equation 10). The features should be those of a proxy, such as `handful.proxies.Nystrom` of a
    `CNTK`, or embeddings. Rows farther than twice the usual distance from the pool's median are
    pulled back to it, as the gradient of an outlier is large for its length alone.

    Parameters
    ----------
    l2 : float, default=0.0001
        Penalty on the coefficients, relative to the mean inner loss; the paper: 1e-4. Where the
        inner problem does not converge, ten times as much is tried, which a ConvergenceWarning
        tells.
    variants : callable or None, default=None
        None, or a function of a row of the pool that gives the features of augmented variants
        of that point, shape (variants, d), always the same number of them. A selected point
        enters the inner problem with all its variants, as labelled points do where `labelled`
        has shape (l, variants, d). The paper: 100 of each.
    ihvp : str or InverseHessian, default="auto"
        How implicit gradients solve their linear system, as in `BilevelCoreset`: "auto" is
        exact; the paper takes ``ConjugateGradients(n_steps=100)``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16
    >>> first = [list(y).index(digit) for digit in range(10)]
    >>> model = LogisticRegression().fit(X[first], y[first])
    >>> known = dict(labelled=X[first], labels=y[first], classes=model.classes_)
    >>> P = model.predict_proba(X)
    >>> BilevelQuery(l2=1e-3).query(5, features=X, probabilities=P, **known).shape
    (5,)
    """

    l2: float = 1e-4
    _: KW_ONLY
    variants: Any = None
    ihvp: str = "auto"

    _needs = ("features", "probabilities", "labelled", "labels")

    def _query(self, n, pool, features, probabilities, labelled, labels):
        if labelled.shape[0] == 0:
            raise ValueError(
                "labelled is empty: the inner problem needs at least one labelled point."
            )
        if sparse.issparse(features) and (self.variants is not None or labelled.ndim == 3):
            raise ValueError(
                "variants of points need dense features, got sparse ones: use features.toarray()."
            )
        # as in the authors' code
        problem = Logistic(self.l2, penalise_intercept=True)
        problem.check()
        pulled = within_reach(features)
        copies = pulled(
            labelled if labelled.ndim == 3 or sparse.issparse(labelled) else labelled[:, None]
        )
        given = n, pool, pulled(features), probabilities.mean(axis=0), copies, labels, pulled
        while True:
            try:
                return self._choose(problem, *given)
            except ConvergenceError as error:
                if problem.l2 >= MOST_PENALTY:
                    raise
                problem = Logistic(10 * problem.l2, penalise_intercept=True)
                warn(
                    f"{error} The batch is chosen at l2={problem.l2:g} instead.",
                    ConvergenceWarning,
                )

    def _choose(self, problem, n, pool, features, targets, copies, labels, pulled):
        rows, place = self._rows(problem, n, pool, features, targets, copies, labels)
        # no draw matters to first-order scores; the generator is what the model asks for
        ihvp = named_option("ihvp", self.ihvp, **IHVP)
        model = GLM(problem, rows, np.random.default_rng(0), ihvp)
        model.add_rows(range(pool, place))
        chosen = []
        for _ in range(n):
            model.fit()
            best = int(best_rows(model, 1, "linear")[0])
            chosen.append(best)
            # where its variants join, the row itself does not
            model.data.absent = np.append(model.data.absent, best)
            place = self._join(model, best, place, pulled)
        return chosen

    def _rows(self, problem, n, pool, features, targets, copies, labels):
        # The pool, then the variants of labelled points, then room for those of the points to be
        # selected. Outside, a labelled point counts once, however many variants it has.
        variants = copies.shape[1] if copies.ndim == 3 else 1
        room = n * variants if self.variants is not None else 0
        known = np.eye(targets.shape[1])[np.repeat(labels, variants)]
        if sparse.issparse(features):
            X = sparse.vstack([features, copies], format="csr")
        else:
            X = np.concatenate(
                [features, copies.reshape(-1, copies.shape[2]), np.zeros((room, features.shape[1]))]
            )
        Y = np.concatenate(
            [targets, known, np.full((room, targets.shape[1]), 1.0 / targets.shape[1])]
        )
        weight = np.concatenate(
            [np.ones(pool), np.full(len(known), 1.0 / variants), np.zeros(room)]
        )
        columns_first = Y.shape[1] == 2 and not sparse.issparse(X)
        X = (
            np.asfortranarray(X, dtype=features.dtype)
            if columns_first
            else X.astype(features.dtype)
        )
        rows = OuterRows(X, problem.encode(Y).astype(X.dtype), weight, np.arange(pool, X.shape[0]))
        return rows, pool + len(known)

    def _join(self, model, best, place, pulled):
        # The selected point, or all its variants, enters the inner problem.
        if self.variants is None:
            model.add_rows([best])
            return place
        own = np.asarray(self.variants(best))
        X = model.X
        room = (len(X) - place) // own.shape[0] if own.ndim == 2 else 0
        if own.ndim != 2 or own.shape[1] != X.shape[1] or room < 1 or not np.isfinite(own).all():
            raise ValueError(
                f"variants must give finite features of shape (variants, {X.shape[1]}), as many "
                "variants as labelled "
                f"points have, got shape {own.shape} for row {best}."
            )
        added = range(place, place + len(own))
        X[added.start : added.stop] = pulled(own)
        # the model's own targets, which may be a copy of those that it was given
        model.Y[added.start : added.stop] = model.Y[best]
        model.add_rows(added)
        return added.stop
