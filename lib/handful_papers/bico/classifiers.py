"""Networks for spectrograms and images: the paper's WideResNet, and a small one for a machine
without a GPU."""

import torch
from torch import nn


class Classifier(nn.Module):
    """Base class: a body that embeds rows, and a linear head."""

    def embed(self, x):
        """The input of the last layer, shape (batch, width)."""
        return self.body(x)

    def forward(self, x):
        """Logits, shape (batch, n_classes)."""
        return self.head(self.embed(x))


class ConvNet(Classifier):
    """A small network for spectrograms: 3 x 3 convolutions of stride 2 with batch normalisation,
    average pooling, head.

    Pooling is over time alone: where a word lies in time does not tell which word it is, but where
    it lies in frequency does. For a 32 x 32 spectrogram the default has 26,000 parameters and 0.6
    million multiplications; WideResNet-28-10 has 36 million and 5.2 billion.

    Parameters
    ----------
    n_classes : int
    height : int, frequency bins of the spectrograms
    channels : tuple of int, output channels of each convolution
    in_channels : int, 1 for spectrograms
    """

    def __init__(
        self,
        n_classes,
        height=32,
        channels=(16, 32, 64),
        in_channels=1,
    ):
        super().__init__()
        layers = []
        for before, after in zip((in_channels, *channels), channels):
            layers += [
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            ]
            height = (height + 1) // 2
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels[-1] * height, n_classes)

    def embed(self, x):
        """The input of the last layer, shape (batch, channels[-1] * height / 8) for three
        convolutions."""
        return self.body(x).mean(dim=3).flatten(1)


class _Block(nn.Module):
    # Pre-activation residual block, whose shortcut is a 1 x 1 convolution of the activation if the
    # shape changes.
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.BatchNorm2d(before)
        self.second = nn.BatchNorm2d(after)
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut = None
        if before != after or stride != 1:
            self.shortcut = nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.first(x))
        rest = x if self.shortcut is None else self.shortcut(y)
        return rest + self.conv2(torch.relu(self.second(self.conv1(y))))


class WideResNet(Classifier):
    """Wide residual network (Zagoruyko and Komodakis 2016), without dropout; WideResNet-28-10 is
    the paper's.

    Parameters
    ----------
    n_classes : int
    depth : int, 4 more than a multiple of 6
    width : int, the factor on the 16, 32 and 64 channels of the three groups
    in_channels : int, 1 for spectrograms
    """

    def __init__(
        self,
        n_classes,
        depth=28,
        width=10,
        in_channels=1,
    ):
        super().__init__()
        layers = [nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)]
        before = 16
        for group, after in enumerate((16 * width, 32 * width, 64 * width)):
            for block in range((depth - 4) // 6):
                # Every group but the first halves the picture.
                stride = 2 if group and block == 0 else 1
                layers.append(_Block(before, after, stride))
                before = after
        layers += [nn.BatchNorm2d(before), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def embed(self, x):
        """The input of the last layer, shape (batch, 64 * width)."""
        return self.body(x).mean(dim=(2, 3))


def network(name, n_classes, shape):
    """A new network by its name.

    Parameters
    ----------
    name : "conv", "conv-16-32-64" (channels) or "wrn-28-10" (depth and width)
    n_classes : int
    shape : tuple, the shape of a row: (height, width) or (channels, height, width)
    """
    kind, *numbers = name.split("-")
    numbers = [int(n) for n in numbers]
    channels = shape[0] if len(shape) == 3 else 1
    if kind == "conv":
        widths = tuple(numbers) or (16, 32, 64)
        return ConvNet(n_classes, shape[-2], widths, in_channels=channels)
    return WideResNet(n_classes, *(numbers or (28, 10)), in_channels=channels)
