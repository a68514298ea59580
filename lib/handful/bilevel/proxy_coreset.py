"""Selection in the features of a proxy, for selectors that must see raw rows: of a stream, of a
memory."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from handful.bilevel.bilevel_coreset import BilevelCoreset
from handful.checks import MAX_SEED, Accepts, accepts_of
from handful.coreset import Selector
from handful.models.linear import Logistic
from handful.options import Count
from handful.parts import check_selector
from handful.plans import Compress
from handful.proxies import RBF, Nystrom
from handful.types import Seed


class ProxyCoreset(Selector):
    """The coreset that a selector chooses in the features of a proxy (Borsos et al. 2024, Section
    3.5.2).

    The proxy is fitted anew on the rows of every `fit`. That suits places where rows come in parts,
    such as the selector of a `MergeReduce` or of a `ReplayBuffer`.

    Parameters
    ----------
    selector : Selector or None, default=None
        What chooses among the features; by default
        ``BilevelCoreset(Logistic(1e-3), outer_penalty=False)``, with the paper's outer loss. Its
        own `size` and `random_state` are not used.
    proxy : transformer or None, default=None
        Transformer, such as `Nystrom(NTK())`; `Nystrom(RBF())` by default. Its `random_state`
        is set, if it has one.
    size : int, default=100
        Number of points m.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_, weights_ : those of the selector
    selector_ : the fitted selector

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from handful import BilevelCoreset, Logistic
    >>> from handful.bilevel import ProxyCoreset
    >>> from handful.proxies import RBF, Nystrom
    >>> X, y = load_digits(return_X_y=True)
    >>> proxy = Nystrom(RBF(1e-3), n_landmarks=64)
    >>> few = ProxyCoreset(BilevelCoreset(Logistic(1e-3)), proxy, size=20, random_state=0)
    >>> len(few.fit(X, y).indices_)
    20
    """

    selector: Any = None
    proxy: Any = None
    _: KW_ONLY
    size: Count = 100
    random_state: Seed = None

    # from a sample of rows in blocks: the proxy's columns count
    _plan = Compress()

    @property
    def _accepts(self):
        y = accepts_of(self._chooser()).y
        proxy_reads = self.proxy is not None and get_tags(self.proxy).target_tags.required
        return Accepts("optional" if y == "unread" and proxy_reads else y)

    @property
    def _ranks(self):
        return self._chooser()._ranks

    def _check_targets(self, y):
        clone(self._chooser()).set_params(size=self.size)._check_targets(y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._chooser())
        tags.classifier_tags = inner.classifier_tags
        tags.target_tags = inner.target_tags
        return tags

    def _chooser(self):
        if self.selector is None:
            # The penalty belongs to the proxy, not to what will be trained. With the ten times
            # larger one of `Logistic`, more than some ten rows a class gain little from each other.
            return BilevelCoreset(Logistic(1e-3), outer_penalty=False)
        check_selector(self.selector)
        return self.selector

    def _select_one_class(self, X, sample_weight, rng):
        features, selector = self._features_and_selector(X, np.zeros(X.shape[0], dtype=int), rng)
        return selector._select_one_class(features, sample_weight, rng)

    def _features_and_selector(self, X, y, rng):
        proxy = Nystrom(RBF()) if self.proxy is None else self.proxy
        if isinstance(proxy, type) or not hasattr(proxy, "fit_transform"):
            raise TypeError(
                f"proxy must be a transformer, such as Nystrom(NTK()), got proxy={proxy!r}."
            )
        proxy = clone(proxy)
        if "random_state" in proxy.get_params():
            proxy.set_params(random_state=int(rng.integers(MAX_SEED)))
        selector = clone(self._chooser()).set_params(size=self.size, random_state=rng)
        return proxy.fit_transform(X, y), selector

    def _select(self, X, y, sample_weight, rng):
        features, selector = self._features_and_selector(X, y, rng)
        # its columns are the proxy's
        selector._of_a_part = True
        self.selector_ = selector.fit(features, y, sample_weight=sample_weight)
        return self.selector_.indices_, self.selector_.weights_
