"""Neural tangent kernels of convolutional networks (Arora et al. 2019), on any device of torch."""

import math
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from handful.checks import check_integer
from handful.lazy import module_with_torch
from handful.options import CountOrZero
from handful.proxies.ntk import TangentKernel, dense_layers, dense_selves


def _check_filters(name, value, *, of):
    if not isinstance(value, (tuple, list)) or not value:
        raise ValueError(
            f"filters of CNTK must be a tuple of at least 1 width, got filters={value!r}."
        )
    for width in value:
        check_integer(name, width, of=of)
        if width % 2 == 0:
            raise ValueError(f"filters of CNTK must have odd widths, got filters={value!r}.")


def _check_shape(name, value, *, of):
    if value is None:
        return
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise ValueError(f"shape of CNTK must be (channels, height, width), got shape={value!r}.")
    for length in value:
        check_integer(name, length, of=of)


class CNTK(TangentKernel):
    """Neural tangent kernel of a convolutional network with infinitely many channels.

    Convolutions (stride 1, borders filled with zeros), each followed by ReLUs, then a head, then
    dense layers. The defaults are the paper's proxy of its small network (Section 5.3, split
    MNIST): two 5 x 5 convolutions, flatten, one hidden dense layer. `CNTK.arora` makes the one that
    it takes for CIFAR-10.

    Parameters
    ----------
    filters : tuple of int, default=(5, 5)
        The width of each convolution's filters, odd numbers.
    head : {"flatten", "pool"}, default="flatten"
        "flatten" (cost linear in the pixels) or "pool", global average pooling (quadratic in
        them).
    hidden : int, default=1
        Hidden dense layers after the head.
    shape : tuple of int or None, default=None
        Channels, height and width of the images that the rows hold, in this order; None:
        square, one channel.
    w_std, b_std : float, default=1.0 and 0.05
        Standard deviations of weights (times the root of the fan-in) and of biases.
    device : str, torch.device or None, default=None
        Where it runs, such as "cuda"; None is the CPU.

    Raises
    ------
    ImportError
        when it is called, where torch is not installed

    Notes
    -----
    Rows of float32 (or of bytes) take less time than float64 ones, and are as precise unless two
    images nearly coincide. On one core of 2025, a flatten head costs some tens of nanoseconds for
    each pixel, convolution and pair of images.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from handful.proxies import CNTK, Nystrom
    >>> X = load_digits().data.astype("float32") / 16
    >>> Nystrom(CNTK(), n_landmarks=50, random_state=0).fit_transform(X).shape
    (1797, 50)
    """

    filters: Annotated[Any, _check_filters] = (5, 5)
    _: KW_ONLY
    head: Literal["flatten", "pool"] = "flatten"
    hidden: CountOrZero = 1
    shape: Annotated[Any, _check_shape] = None
    device: Any = None

    @classmethod
    def arora(
        cls, layers=6, *, head: Literal["flatten", "pool"] = "pool", shape=(3, 32, 32), device=None
    ):
        """The network of Arora et al. (2019): ``layers - 1`` convolutions 3 x 3, a head and a dense
        output.

        Weights of variance 2 over the fan-in, no biases. The paper takes six layers and pooling
        (Section 5.1).
        """
        w_std = math.sqrt(2)
        return cls(
            (3,) * (layers - 1),
            head=head,
            hidden=0,
            shape=shape,
            w_std=w_std,
            b_std=0.0,
            device=device,
        )

    def _matrix(self, X, Y):
        s, t = self._convolutions("pairs", X, Y)
        q_x = q_y = None
        if self.hidden:
            q_y = self._convolutions("selves", Y)[0]
            q_x = q_y if Y is X else self._convolutions("selves", X)[0]
        return dense_layers(s, t, q_x, q_y, self.hidden, *self._variances(X.dtype))

    def _diagonal(self, X):
        return dense_selves(
            *self._convolutions("selves", X), self.hidden, *self._variances(X.dtype)
        )

    def _convolutions(self, which, *rows):
        """Covariances and tangent kernel after the head, of "pairs" (X, Y) or of "selves" (X)."""
        w_var, b_var = map(float, self._variances(rows[0].dtype))
        network = dict(filters=self.filters, pooled=self.head == "pool", w_var=w_var, b_var=b_var)
        conv = module_with_torch("handful.proxies.conv", "CNTK")
        return getattr(conv, which)(
            *rows, self._image(rows[0].shape[1]), self.device or "cpu", **network
        )

    def _image(self, length):
        if self.shape is None:
            side = math.isqrt(length)
            if side * side != length:
                raise ValueError(
                    f"CNTK got rows of {length} values, which are no square image: say "
                    "shape=(channels, height, width)."
                )
            return 1, side, side
        if math.prod(self.shape) != length:
            raise ValueError(
                f"CNTK has shape={tuple(self.shape)}, so rows must have {math.prod(self.shape)} "
                f"values, got {length}."
            )
        return tuple(self.shape)
