"""The small convolutional network of the continual-learning tables, for rows that are flattened
images."""

import torch
from torch import nn


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
            nn.Dropout(dropout),
            nn.MaxPool2d(2),
            nn.ReLU(),
        ]
    body = nn.Sequential(*layers, nn.Flatten()).to(memory_format=torch.channels_last)
    with torch.no_grad():
        width = body(torch.zeros(1, shape[0] * shape[1] * shape[2])).shape[1]
    return nn.Sequential(
        *body, nn.Linear(width, 128), nn.Dropout(dropout), nn.ReLU(), nn.Linear(128, classes)
    )
