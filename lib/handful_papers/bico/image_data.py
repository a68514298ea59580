"""The images of the bilevel paper: what a row of pixels is, and how networks are usually given
it."""

# Channels, height and width of an image.
SHAPES = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
}
BRIGHTEST = {"digits": 16.0, "mnist": 255.0, "cifar10": 255.0}
# Mean and standard deviation of the channels, on a scale from 0 to 1.
CHANNELS = {
    "mnist": ([0.1307], [0.3081]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
}


def shape_of(pixels):
    """(channels, height, width) of a row of so many pixels: a square image of one channel, or of
    three at 32 x 32."""
    channels = 3 if pixels == 3072 else 1
    side = round((pixels / channels) ** 0.5)
    return channels, side, side


def averaged(images, shape, side):
    """Images of `shape`, shrunk to `side` pixels, which divide the height, by averaging: (n,
    channels, side, side)."""
    channels, height, _ = shape
    k = height // side
    return images.reshape(
        -1,
        channels,
        side,
        k,
        side,
        k,
    ).mean(axis=(3, 5))
