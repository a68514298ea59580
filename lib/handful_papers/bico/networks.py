"""The small convolutional network of the continual-learning tables, for rows that are flattened
images."""

import numpy as np
import torch
from numba import njit
from torch import nn

# 15 bits decide on a unit: with the sign they would be no number from 0 on.
BITS = 32767


class Dropout(nn.Module):
    """Dropout as in `torch.nn.Dropout`, with masks that are drawn four units at a time.

    On processors that are not Intel's, torch draws its mask unit by unit, and that takes more than
    half of a step of `small_cnn`. Here 64 random bits decide on four units.

    Parameters
    ----------
    share : share of units dropped, rounded to a multiple of 1 / 32768
    """

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        """Units of any shape, kept and scaled or zero; x itself where nothing is dropped."""
        if not self.training or not self.share:
            return x
        kept = self.draw(x).bitwise_and_(BITS) >= self.threshold
        factors = kept.to(x.dtype).mul_(self.factor)
        return x * factors.as_strided(x.shape, torch.empty_like(x).stride())

    @property
    def factor(self):
        """By what units that are kept are multiplied."""
        return 1 / (1 - self.share)

    @property
    def threshold(self):
        """Units are dropped whose bits of `draw` are below it as a number."""
        return round((BITS + 1) * self.share)

    @staticmethod
    def draw(x):
        """A number for each unit of x, in the order of its memory, whose `BITS` are random: int16
        tensor, flat."""
        n_words = -(-x.numel() // 4)
        words = torch.empty(n_words, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        return words.view(torch.int16)[: x.numel()]


class DropoutPoolReLU(Dropout):
    """`Dropout`, max-pooling of 2 x 2 pixels and ReLU, in one pass over the units.

    One after the other these take most of a step of `small_cnn`: each writes all units anew, and
    the convolutions between them are quick. Gradients and draws are those of the three layers.

    Parameters
    ----------
    share : share of units dropped, rounded to a multiple of 1 / 32768
    """

    def forward(self, x):
        """Images (n, channels, height, width) with half the height and width, rounded down."""
        if self.training and self.share and x.device.type == "cpu":
            return _DropoutPoolReLU.apply(x, self)
        return nn.functional.max_pool2d(super().forward(x), 2).relu()


class _DropoutPoolReLU(torch.autograd.Function):
    # What is positive is ordered by its bits as by its value, and what is not counts as zero: the
    # kernels compare integers, as numba has no bfloat16.

    @staticmethod
    def forward(ctx, x, layer):
        units = x.permute(0, 2, 3, 1).contiguous()
        n, height, width, channels = units.shape
        numbers = layer.draw(units).numpy().reshape(units.shape)
        pooled = units.new_empty(n, height // 2, width // 2, channels)
        place = np.empty(pooled.shape, dtype=np.uint8)
        infinite = _bits(units.new_tensor([torch.inf]))[0]
        finite = _pool(_bits(units), numbers, layer.threshold, infinite, _bits(pooled), place)
        # A unit that is no number, dropped or not, leaves none.
        pooled.mul_(layer.factor if finite else torch.nan)
        ctx.place = place
        ctx.factor = layer.factor
        ctx.shape = units.shape
        return pooled.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx, gradient):
        gradient = (gradient * ctx.factor).permute(0, 2, 3, 1).contiguous()
        odd = any(k % 2 for k in ctx.shape[1:3])
        spread = gradient.new_zeros(ctx.shape) if odd else gradient.new_empty(ctx.shape)
        _spread(_bits(gradient), ctx.place, _bits(spread))
        return spread.permute(0, 3, 1, 2), None


def _bits(numbers):
    return numbers.detach().view(getattr(torch, f"int{8 * numbers.element_size()}")).numpy()


@njit(cache=True, nogil=True)
def _pool(units, numbers, threshold, infinite, pooled, place):
    """The largest kept unit of 2 x 2, zero if none is positive, and which it is (4: none); whether
    all units are finite."""
    n_images, height, width, n_channels = pooled.shape
    finite = True
    for i in range(n_images):
        for r in range(height):
            for s in range(width):
                for c in range(n_channels):
                    best = units.dtype.type(0)
                    where = np.uint8(4)
                    for p in range(4):
                        row = 2 * r + p // 2
                        column = 2 * s + p % 2
                        unit = units[i, row, column, c]
                        finite &= (unit & infinite) != infinite
                        kept = (numbers[i, row, column, c] & BITS) >= threshold
                        better = kept & (unit > best)
                        best = unit if better else best
                        where = np.uint8(p) if better else where
                    pooled[i, r, s, c] = best
                    place[i, r, s, c] = where
    return finite


@njit(cache=True, nogil=True)
def _spread(gradient, place, spread):
    """Give each gradient to the unit of 2 x 2 that `place` names, and zero to the others."""
    n_images, height, width, n_channels = gradient.shape
    for i in range(n_images):
        for r in range(height):
            for s in range(width):
                for p in range(4):
                    for c in range(n_channels):
                        its_own = place[i, r, s, c] == p
                        value = gradient[i, r, s, c] if its_own else 0
                        spread[i, 2 * r + p // 2, 2 * s + p % 2, c] = value


def small_cnn(shape=(1, 28, 28), classes=10, *, dropout=0.5):
    """Two blocks of convolution, dropout, ReLU and max-pooling, then two linear layers (Section
    5.3).

    32 and 64 filters of size 5 x 5, 128 hidden units, dropout before each ReLU.

    Parameters
    ----------
    shape : (channels, height, width) of the image that a row of inputs holds
    classes : int
    dropout : share of units dropped
    """
    layers = [nn.Unflatten(1, tuple(shape))]
    for before, after in ((shape[0], 32), (32, 64)):
        # Pooling before the ReLU gives the same, and the ReLU then has a quarter of the pixels.
        layers += [nn.Conv2d(before, after, 5), DropoutPoolReLU(dropout)]
    body = nn.Sequential(*layers, nn.Flatten()).to(memory_format=torch.channels_last)
    with torch.no_grad():
        width = body(torch.zeros(1, shape[0] * shape[1] * shape[2])).shape[1]
    return nn.Sequential(
        *body, nn.Linear(width, 128), Dropout(dropout), nn.ReLU(), nn.Linear(128, classes)
    )
