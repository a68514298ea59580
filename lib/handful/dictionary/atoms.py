"""A dictionary of measurement vectors: the wavelets of images."""

import numpy as np

from handful.checks import check_integer


def wavelet_atoms(shape, *, wavelet="db1", level=None, dtype=np.float64):
    """The wavelet coefficients of images as measurement vectors, one in each row, the coarsest
    first.

    Parameters
    ----------
    shape : (height, width) of the images
    wavelet : str, name of an orthogonal wavelet in PyWavelets; the paper: "db1", the Haar wavelet
    level : int, how often the sides are halved; None: as often as both allow (twice for 28 x 28)
    dtype : of the result

    Returns
    -------
    array, shape (height * width, height * width), orthonormal

    Raises
    ------
    ValueError
        if a side cannot be halved `level` times: the coefficients would not be orthonormal
    """
    try:
        import pywt
    except ImportError as error:
        raise ImportError("wavelet_atoms needs PyWavelets: pip install PyWavelets.") from error
    if np.shape(shape) != (2,):
        raise ValueError(f"shape must be (height, width) of an image, got {shape!r}.")
    for side in shape:
        check_integer("shape", side, why="a side of the image in pixels")
    height, width = shape
    most = min(int(side & -side).bit_length() - 1 for side in shape)
    level = most if level is None else level
    if wavelet not in pywt.wavelist(kind="discrete"):
        raise ValueError(
            "wavelet must be the name of a discrete wavelet of PyWavelets, got "
            f"wavelet={wavelet!r}."
        )
    if not 1 <= level <= most:
        raise ValueError(
            f"an image of {height} x {width} pixels can be halved {most} times, got level={level}."
        )
    units = np.eye(height * width).reshape(-1, height, width)
    parts = pywt.wavedec2(units, wavelet, mode="periodization", level=level, axes=(1, 2))
    coefficients, _ = pywt.coeffs_to_array(parts, axes=(1, 2))
    coefficients = coefficients.reshape(len(units), -1).T  # (coefficients, pixels)
    if not np.allclose(coefficients @ coefficients.T, np.eye(len(units)), atol=1e-6):
        raise ValueError(
            "wavelet must be orthogonal, and its filter fit into the image, got "
            f"wavelet={wavelet!r}."
        )
    scale = np.max(
        np.abs(np.indices((height, width)) // (np.array([height, width]) >> level)[:, None, None]),
        axis=0,
    )
    return np.ascontiguousarray(coefficients[np.argsort(scale.ravel(), kind="stable")], dtype=dtype)
