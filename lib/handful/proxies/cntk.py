"""Neural tangent kernels of convolutional networks (Arora et al. 2019), on the processor or on any device of torch."""

import math

from handful.checks import check_integer
from handful.proxies.ntk import TangentKernel, dense_layers


class CNTK(TangentKernel):
    """Neural tangent kernel of a convolutional network with infinitely many channels.

    Convolutions (stride 1, borders filled with zeros), each followed by ReLUs, then a head, then dense layers. The
    defaults are the paper's proxy of its small network (Section 5.3, split MNIST): two 5 x 5 convolutions, flatten,
    one hidden dense layer. `CNTK.arora` makes the one that it takes for CIFAR-10.

    Parameters
    ----------
    filters : tuple of odd int, the width of each convolution's filters
    head : "flatten" (cost linear in the pixels) or "pool", global average pooling (quadratic in them)
    hidden : int, hidden dense layers after the head
    shape : (channels, height, width) of the images that the rows hold, in this order; None: square, one channel
    w_std, b_std : standard deviations of weights (times the root of the fan-in) and of biases
    device : None computes with numba; else a torch device ("cpu", "cuda")

    Notes
    -----
    Rows of float32 (or of bytes) take about a tenth of the time of float64 ones, and are as precise unless two images
    nearly coincide. On one core of 2025, a flatten head costs about a nanosecond for each pixel, convolution and pair
    of images.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from handful.proxies import CNTK, Nystrom
    >>> X = load_digits().data.astype("float32") / 16
    >>> Nystrom(CNTK(), n_landmarks=50, random_state=0).fit_transform(X).shape
    (1797, 50)
    """

    def __init__(self, filters=(5, 5), *, head="flatten", hidden=1, shape=None, w_std=1.0, b_std=0.05, device=None):
        self.filters = filters
        self.head = head
        self.hidden = hidden
        self.shape = shape
        self.w_std = w_std
        self.b_std = b_std
        self.device = device

    @classmethod
    def arora(cls, layers=6, *, head="pool", shape=(3, 32, 32), device=None):
        """The network of Arora et al. (2019): ``layers - 1`` convolutions 3 x 3, a head and a dense output.

        Weights of variance 2 over the fan-in, no biases. The paper takes six layers and pooling (Section 5.1).
        """
        w_std = math.sqrt(2)
        return cls((3,) * (layers - 1), head=head, hidden=0, shape=shape, w_std=w_std, b_std=0.0, device=device)

    def check(self):
        """ValueError if a hyper-parameter is out of range."""
        super().check()
        check_integer("hidden", self.hidden, of=self, least=0)
        if self.head not in ("flatten", "pool"):
            raise ValueError(f'head of CNTK must be "flatten" or "pool", got head={self.head!r}.')
        if not isinstance(self.filters, (tuple, list)) or not self.filters:
            raise ValueError(f"filters of CNTK must be a tuple of at least 1 width, got filters={self.filters!r}.")
        for width in self.filters:
            check_integer("filters", width, of=self)
            if width % 2 == 0:
                raise ValueError(f"filters of CNTK must have odd widths, got filters={self.filters!r}.")
        if self.shape is not None:
            if not isinstance(self.shape, (tuple, list)) or len(self.shape) != 3:
                raise ValueError(f"shape of CNTK must be (channels, height, width), got shape={self.shape!r}.")
            for length in self.shape:
                check_integer("shape", length, of=self)

    def _matrix(self, X, Y):
        image = self._image(X.shape[1])
        s, t = self._engine("pairs", X, Y, image)
        of_x = of_y = None
        if self.hidden:
            of_y, _ = self._engine("selves", Y, image)
            of_x = of_y if Y is X else self._engine("selves", X, image)[0]
        return dense_layers(s, t, of_x, of_y, self.hidden, *self._variances(X.dtype))

    def _diagonal(self, X):
        w_var, b_var = self._variances(X.dtype)
        s, t = self._engine("selves", X, self._image(X.shape[1]))
        for _ in range(self.hidden):
            s = w_var * s + b_var
            t = (s + w_var * t) / 2
            s = s / 2
        return w_var * (s + t) + b_var

    def _engine(self, which, *arrays):
        """Covariances and tangent kernel after the head, of "pairs" (X, Y, image) or of "selves" (X, image)."""
        *rows, image = arrays
        w_var, b_var = self._variances(rows[0].dtype)
        network = dict(filters=tuple(self.filters), pooled=self.head == "pool", w_var=w_var, b_var=b_var)
        if self.device is None:
            from handful.proxies import conv as engine
        else:
            from handful.proxies import conv_torch as engine

            network["device"] = self.device
        return getattr(engine, which)(*rows, image, **network)

    def _image(self, length):
        if self.shape is None:
            side = math.isqrt(length)
            if side * side != length:
                raise ValueError(
                    f"CNTK got rows of {length} values, which are no square image: say shape=(channels, height, width)."
                )
            return 1, side, side
        if math.prod(self.shape) != length:
            raise ValueError(
                f"CNTK has shape={tuple(self.shape)}, so rows must have {math.prod(self.shape)} values, got {length}."
            )
        return tuple(self.shape)
