"""The small convolutional network of the continual-learning tables, for rows that are flattened
images."""

import torch
from torch import nn


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
        n_words = -(-x.numel() // 4)
        words = torch.empty(n_words, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        mask = words.view(torch.int16)[: x.numel()]
        mask &= 32767  # 15 random bits, uniform on 0, ..., 32767
        mask -= round(32768 * self.share)
        mask >>= 15  # -1 where the number was negative: dropped
        mask += 1
        factors = mask.to(x.dtype).mul_(1 / (1 - self.share))
        return x * factors.as_strided(x.shape, torch.empty_like(x).stride())


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
        layers += [
            nn.Conv2d(before, after, 5),
            Dropout(dropout),
            nn.MaxPool2d(2),
            nn.ReLU(),
        ]
    body = nn.Sequential(*layers, nn.Flatten()).to(memory_format=torch.channels_last)
    with torch.no_grad():
        width = body(torch.zeros(1, shape[0] * shape[1] * shape[2])).shape[1]
    return nn.Sequential(
        *body, nn.Linear(width, 128), Dropout(dropout), nn.ReLU(), nn.Linear(128, classes)
    )
