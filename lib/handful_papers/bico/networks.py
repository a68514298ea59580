"""The small networks of the continual-learning tables, for rows that are flattened images."""

import numba
import numpy as np
import torch
from torch import nn


class SmallCNN(nn.Module):
    """Two blocks of convolution, dropout, ReLU and max-pooling, then two linear layers (Section 5.3).

    32 and 64 filters of size 5 x 5, 128 hidden units, dropout .5 before each ReLU.

    Parameters
    ----------
    shape : (channels, height, width) of the image that a row of inputs holds
    classes : int
    dropout : share of units dropped; after convolutions rounded to a multiple of 1/256
    """

    def __init__(self, shape=(1, 28, 28), classes=10, *, dropout=0.5):
        super().__init__()
        self.shape = tuple(shape)
        self.blocks = nn.Sequential(
            nn.Conv2d(shape[0], 32, 5),
            DropReLUPool(dropout),
            nn.Conv2d(32, 64, 5),
            DropReLUPool(dropout),
            nn.Flatten(),
        ).to(memory_format=torch.channels_last)
        with torch.no_grad():
            width = self.blocks(torch.zeros(1, *self.shape)).shape[1]
        self.hidden = nn.Sequential(nn.Linear(width, 128), nn.Dropout(dropout), nn.ReLU())
        self.head = nn.Linear(128, classes)

    def forward(self, X):
        """Logits of rows, shape (n, classes)."""
        images = X.reshape(-1, *self.shape).contiguous(memory_format=torch.channels_last)
        return self.head(self.hidden(self.blocks(images)))


class DropReLUPool(nn.Module):
    """Dropout, ReLU and 2 x 2 max-pooling in one pass over the pixels.

    Parameters
    ----------
    p : share of units dropped in training, rounded to a multiple of 1/256
    """

    def __init__(self, p=0.5):
        super().__init__()
        self.p = round(256 * p) / 256

    def forward(self, Z):
        """(n, channels, height, width) to (n, channels, height // 2, width // 2)."""
        if not self.training or not self.p:
            return torch.relu(nn.functional.max_pool2d(Z, 2))
        if Z.device.type != "cpu":
            return torch.relu(nn.functional.max_pool2d(nn.functional.dropout(Z, self.p), 2))
        return _DropReLUPool.apply(Z, self.p)


class _DropReLUPool(torch.autograd.Function):
    # Floats that are positive are ordered as their bits are, so the kernels compare integers, of bfloat16 as well.

    @staticmethod
    def forward(ctx, Z, p):
        bits = _bits(Z)
        n, height, width, channels = bits.shape
        random = torch.empty(-(-Z.numel() // 8), dtype=torch.int64).random_(-(2**63), None).numpy().view(np.uint8)
        pooled = np.empty((n, height // 2, width // 2, channels), bits.dtype)
        chosen = np.empty(pooled.shape, np.uint8)
        infinity = _bits(Z.new_full((1, 1, 1, 1), torch.inf)).item()
        _pool(bits, random[: Z.numel()].reshape(bits.shape), round(256 * p), infinity, pooled, chosen)
        ctx.chosen, ctx.shape, ctx.scale = chosen, bits.shape, 1.0 / (1.0 - p)
        return torch.from_numpy(pooled).view(Z.dtype).permute(0, 3, 1, 2) * ctx.scale

    @staticmethod
    def backward(ctx, gradient):
        bits = _bits(gradient * ctx.scale)
        spread = (np.zeros if ctx.shape[1] % 2 or ctx.shape[2] % 2 else np.empty)(ctx.shape, bits.dtype)
        _unpool(bits, ctx.chosen, spread)
        return torch.from_numpy(spread).view(gradient.dtype).permute(0, 3, 1, 2), None


def _bits(Z):
    # the integers behind a tensor (n, channels, height, width), with the channels last
    Z = Z.detach().permute(0, 2, 3, 1).contiguous()
    return Z.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[Z.element_size()]).numpy()


@numba.njit(cache=True)
def _pool(Z, random, dropped, infinity, pooled, chosen):
    # The largest positive unit that is kept of every 2 x 2, and which it was: 4 where there is none. NaN, of whichever
    # sign and kept or not, makes the result NaN: its bits without the sign exceed `infinity`, those of infinity.
    n, height, width, channels = pooled.shape
    integer = Z.dtype.type  # without it numba counts in 64 bits
    unsigned, infinity = integer(np.iinfo(Z.dtype).max), integer(infinity)
    for i in range(n):
        for row in range(height):
            for column in range(width):
                for c in range(channels):
                    best, which, extreme = integer(0), np.uint8(4), integer(0)
                    for k in range(4):
                        r, s = 2 * row + k // 2, 2 * column + k % 2
                        value = Z[i, r, s, c]
                        extreme = max(extreme, integer(value & unsigned))
                        if (value > best) & (random[i, r, s, c] >= dropped):
                            best, which = value, np.uint8(k)
                    if extreme > infinity:
                        best, which = extreme, np.uint8(0)
                    pooled[i, row, column, c] = best
                    chosen[i, row, column, c] = which


@numba.njit(cache=True)
def _unpool(gradient, chosen, spread):
    n, height, width, channels = gradient.shape
    for i in range(n):
        for row in range(height):
            for column in range(width):
                for k in range(4):
                    for c in range(channels):
                        passes = chosen[i, row, column, c] == k
                        spread[i, 2 * row + k // 2, 2 * column + k % 2, c] = gradient[i, row, column, c] * passes
