"""Covariances and tangent kernels of convolutional layers, for every pair of images, by torch on
any device."""

import numpy as np
import torch

from handful.proxies.ntk import through_relu

# values of a tensor at a time: what stays in the cache of a processor
CHUNK = {"cpu": 1 << 18}
CHUNK_ELSEWHERE = 1 << 26


def pairs(X, Y, image, device, **network):
    """Covariances and tangent kernels after the last convolution, means over its pixels.

    Parameters
    ----------
    X, Y : arrays of one float type, shapes (n, d) and (m, d)
    image : (channels, height, width), d in all
    device : of torch
    network : filters, widths of the convolutions; pooled, whether all pairs of pixels count or
        those at one place; w_var, b_var, variances of weights and biases

    Returns
    -------
    s, t : arrays of that type, shape (n, m)
    """
    x, y = (torch.as_tensor(A, device=device).reshape(len(A), *image) for A in (X, Y))
    most = _most(image, device, network)
    step = max(1, int(most**0.5))
    s, t = np.empty((2, len(x), len(y)), dtype=X.dtype)
    products = "nchw,mcij->hwijnm" if network["pooled"] else "nchw,mchw->hwnm"
    for i in range(0, len(x), step):
        for j in range(0, len(y), max(1, most // step)):
            at = slice(i, i + step), slice(j, j + max(1, most // step))
            a = x[at[0]]
            b = y[at[1]]
            q_x = _variances(a)[..., None]
            q_y = _variances(b)[..., None, :]
            s[at], t[at] = _recursion(torch.einsum(products, a, b) / image[0], q_x, q_y, **network)
    return s, t


def selves(X, image, device, **network):
    """As `pairs`, of each image with itself: two arrays, shape (n,)."""
    x = torch.as_tensor(X, device=device).reshape(len(X), *image)
    products = "nchw,ncij->hwijn" if network["pooled"] else "nchw,nchw->hwn"
    chunks = x.split(max(1, _most(image, device, network)))
    parts = [
        _recursion(torch.einsum(products, a, a) / image[0], *[_variances(a)] * 2, **network)
        for a in chunks
    ]
    return tuple(np.concatenate(part).astype(X.dtype) for part in zip(*parts))


def _most(image, device, network):
    # pairs of images at a time
    pixels = image[1] * image[2]
    return CHUNK.get(device, CHUNK_ELSEWHERE) // (pixels**2 if network["pooled"] else pixels)


def _variances(x):
    return x.square().mean(1).permute(1, 2, 0)


def _recursion(s, q_x, q_y, *, filters, pooled, w_var, b_var):
    # Layer by layer; pixels are the first axes, pairs of images the last.
    t = None
    axes = ((0, 2), (1, 3)) if pooled else ((0,), (1,))
    for width in filters:
        weight = w_var / width**2
        s = _box_sums(s, width, axes).mul_(weight).add_(b_var)
        t = s if t is None else _box_sums(t, width, axes).mul_(weight).add_(s)
        q_x, q_y = (weight * _box_sums(q, width, ((0,), (1,))) + b_var for q in (q_x, q_y))
        both = (q_x[:, :, None, None], q_y) if pooled else (q_x, q_y)
        s, t = through_relu(s, t, *both, torch)
        q_x = q_x / 2
        q_y = q_y / 2
    pixels = tuple(range(4 if pooled else 2))
    return tuple(v.mean(pixels, dtype=torch.float64).cpu().numpy() for v in (s, t))


def _box_sums(values, width, axes):
    # Sums over the width x width pixels around each, 0 outside; axes of one tuple move alike: a
    # pair's pixels.
    for moved in axes:
        total = values.clone()
        for k in range(1, min(width // 2, min(values.shape[axis] for axis in moved) - 1) + 1):
            first = [slice(None)] * values.ndim
            last = [slice(None)] * values.ndim
            for axis in moved:
                first[axis] = slice(0, -k)
                last[axis] = slice(k, None)
            total[tuple(last)] += values[tuple(first)]
            total[tuple(first)] += values[tuple(last)]
        values = total
    return values
