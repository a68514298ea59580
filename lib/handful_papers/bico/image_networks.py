"""The three networks of Figure 8 and Tables 1 and 2 at any width, for rows that hold flattened
images."""

import torch
from torch import nn

from handful_papers.bico.classifiers import WideResNet

# Channels of the 3 x 3 convolutions of VGG16 (Simonyan and Zisserman 2015), block by block; a block
# ends in max-pooling.
VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
# Expansion, channels, blocks and stride of the stages of MobileNetV2 (Sandler et al. 2018); the
# first strides are 1, as is usual for images of 32 x 32.
MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def vgg16(n_classes, in_channels, height, width=1.0):
    """VGG16 with batch normalisation and one linear layer; blocks that come at a single pixel do
    not pool."""
    layers = []
    before = in_channels
    for block in VGG16:
        for channels in block:
            after = _channels(channels, width)
            layers += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
            before = after
        if height > 1:
            layers.append(nn.MaxPool2d(2))
            height //= 2
    layers += [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(before, n_classes),
    ]
    return nn.Sequential(*layers)


class _Inverted(nn.Module):
    # Widen by a 1 x 1 convolution, filter each channel by itself, narrow again; a shortcut where
    # shapes agree.

    def __init__(self, before, after, expansion, stride):
        super().__init__()
        wide = before * expansion
        layers = []
        if expansion > 1:
            layers += [
                nn.Conv2d(before, wide, 1, bias=False),
                nn.BatchNorm2d(wide),
                nn.ReLU6(),
            ]
        each_channel = dict(stride=stride, padding=1, groups=wide)
        layers += [
            nn.Conv2d(wide, wide, 3, **each_channel, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        ]
        self.body = nn.Sequential(*layers)
        self.shortcut = before == after and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.shortcut else self.body(x)


def mobilenet_v2(n_classes, in_channels, width=1.0):
    """MobileNetV2 for small images."""
    before = _channels(32, width)
    layers = [
        nn.Conv2d(in_channels, before, 3, padding=1, bias=False),
        nn.BatchNorm2d(before),
        nn.ReLU6(),
    ]
    for expansion, channels, blocks, stride in MOBILENET_V2:
        for block in range(blocks):
            after = _channels(channels, width)
            own_stride = stride if block == 0 else 1
            layers.append(_Inverted(before, after, expansion, own_stride))
            before = after
    last = _channels(1280, width)
    layers += [
        nn.Conv2d(before, last, 1, bias=False),
        nn.BatchNorm2d(last),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(last, n_classes),
    ]
    return nn.Sequential(*layers)


def _channels(channels, width):
    return max(4, round(channels * width))


def image_network(name, n_classes, shape):
    """A new network for rows of flattened images.

    Parameters
    ----------
    name : "wrn-16-4" (depth, width), "vgg16" or "mobilenetv2", both also with a factor of their
        channels: "vgg16-0.25"
    n_classes : int
    shape : (channels, height, width) of the image that a row holds

    Raises
    ------
    ValueError
        for another name
    """
    kind, *numbers = name.split("-")
    numbers = [float(number) for number in numbers]
    if kind == "wrn" and len(numbers) == 2:
        body = WideResNet(n_classes, *map(int, numbers), in_channels=shape[0])
    elif kind == "vgg16" and len(numbers) < 2:
        body = vgg16(n_classes, shape[0], shape[1], *numbers)
    elif kind == "mobilenetv2" and len(numbers) < 2:
        body = mobilenet_v2(n_classes, shape[0], *numbers)
    else:
        raise ValueError(
            "network must be 'wrn-16-4', 'vgg16-0.25' or 'mobilenetv2-0.25', or alike, got "
            f"{name!r}."
        )
    return nn.Sequential(nn.Unflatten(1, tuple(shape)), body)


def network_title(name):
    """A name of `image_network` as pictures show it, in two lines where a factor is part of it."""
    kind, *numbers = name.split("-")
    title = {"wrn": "WRN", "vgg16": "VGG16", "mobilenetv2": "MobileNetV2"}[kind]
    between = "-" if kind == "wrn" else "\nchannels x "
    return between.join([title, *numbers])


def shift_and_flip(shape, *, pad, flip):
    """A function ``(X, generator) -> X`` that moves each image by up to `pad` pixels and mirrors
    every second one.

    Parameters
    ----------
    shape : (channels, height, width)
    pad : int; the usual 4 for 32 x 32
    flip : bool; digits are not mirrored
    """
    _, height, width = shape

    def augment(X, generator):
        images = nn.functional.pad(X.reshape(-1, *shape), (pad,) * 4)
        n = len(images)
        down, right = torch.randint(2 * pad + 1, (2, n), generator=generator)
        across = torch.arange(width).expand(n, width)
        if flip:
            mirrored = torch.rand(n, 1, generator=generator) < 0.5
            across = torch.where(mirrored, across.flip(1), across)
        rows = (down[:, None] + torch.arange(height)).to(X.device)
        columns = (right[:, None] + across).to(X.device)
        every = torch.arange(n, device=X.device)[:, None, None]
        moved = images.permute(0, 2, 3, 1)[every, rows[:, :, None], columns[:, None, :]]
        return moved.permute(0, 3, 1, 2).reshape(n, -1)

    return augment
