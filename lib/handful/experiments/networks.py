"""The small networks of the continual-learning tables, for rows that are flattened images."""

from itertools import pairwise

import torch
from torch import nn


class MLP(nn.Sequential):
    """Two hidden layers with ReLU and dropout (permuted MNIST: 784-100-100-10, dropout .2)."""

    def __init__(self, widths=(784, 100, 100, 10), *, dropout=0.2):
        layers = []
        for fan_in, fan_out in pairwise(widths[:-1]):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers, nn.Linear(*widths[-2:]))


class SmallCNN(nn.Module):
    """Two blocks of convolution, dropout, ReLU and max-pooling, then two linear layers (Section 5.3).

    32 and 64 filters of size 5 x 5, 128 hidden units, dropout .5 before each ReLU.

    Parameters
    ----------
    shape : (channels, height, width) of the image that a row of inputs holds
    classes : int
    dropout : share of units dropped
    """

    def __init__(self, shape=(1, 28, 28), classes=10, *, dropout=0.5):
        super().__init__()
        self.shape = tuple(shape)
        # Rectifying after pooling gives what rectifying before does, on a quarter of the pixels.
        self.blocks = nn.Sequential(
            nn.Conv2d(shape[0], 32, 5),
            nn.Dropout(dropout),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5),
            nn.Dropout(dropout),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            width = self.blocks(torch.zeros(1, *self.shape)).shape[1]
        self.hidden = nn.Sequential(nn.Linear(width, 128), nn.Dropout(dropout), nn.ReLU())
        self.head = nn.Linear(128, classes)

    def forward(self, X):
        return self.head(self.hidden(self.blocks(X.reshape(-1, *self.shape))))
