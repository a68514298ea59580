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
    x = _images(X, image, device)
    y = _images(Y, image, device)
    most = _most(image, device, network)
    x_step = max(1, int(most**0.5))
    y_step = max(1, most // x_step)
    shape = len(x), len(y)
    s = np.empty(shape, dtype=X.dtype)
    t = np.empty(shape, dtype=X.dtype)
    products = "nchw,mcij->hwijnm" if network["pooled"] else "nchw,mchw->hwnm"
    for i in range(0, len(x), x_step):
        rows = slice(i, i + x_step)
        a = x[rows]
        q_x = _variances(a)[..., None]
        for j in range(0, len(y), y_step):
            columns = slice(j, j + y_step)
            b = y[columns]
            q_y = _variances(b)[..., None, :]
            covariances = torch.einsum(products, a, b) / image[0]
            own_s, own_t = _recursion(covariances, q_x, q_y, **network)
            s[rows, columns] = own_s
            t[rows, columns] = own_t
    return s, t


def selves(X, image, device, **network):
    """As `pairs`, of each image with itself: two arrays, shape (n,)."""
    x = _images(X, image, device)
    products = "nchw,ncij->hwijn" if network["pooled"] else "nchw,nchw->hwn"
    most = max(1, _most(image, device, network))
    parts = []
    for a in x.split(most):
        covariances = torch.einsum(products, a, a) / image[0]
        variances = _variances(a)
        parts.append(_recursion(covariances, variances, variances, **network))
    s, t = map(np.concatenate, zip(*parts))
    return s.astype(X.dtype), t.astype(X.dtype)


def _images(X, image, device):
    # torch takes no negative strides, and warns of arrays that may not be written to.
    rows = np.require(X, requirements=["C", "W"])
    images = torch.as_tensor(rows, device=device)
    return images.reshape(len(X), *image)


def _most(image, device, network):
    # pairs of images at a time
    pixels = image[1] * image[2]
    n_values = pixels**2 if network["pooled"] else pixels
    return CHUNK.get(device, CHUNK_ELSEWHERE) // n_values


def _variances(x):
    return x.square().mean(1).permute(1, 2, 0)


def _recursion(s, q_x, q_y, *, filters, pooled, w_var, b_var):
    # Layer by layer; pixels are the first axes, pairs of images the last.
    t = None
    of_image = (0,), (1,)
    of_pair = ((0, 2), (1, 3)) if pooled else of_image
    for width in filters:
        weight = w_var / width**2
        s = _box_sums(s, width, of_pair).mul_(weight).add_(b_var)
        t = s if t is None else _box_sums(t, width, of_pair).mul_(weight).add_(s)
        q_x = weight * _box_sums(q_x, width, of_image) + b_var
        q_y = weight * _box_sums(q_y, width, of_image) + b_var
        first = q_x[:, :, None, None] if pooled else q_x
        s, t = through_relu(s, t, first, q_y, torch)
        q_x = q_x / 2
        q_y = q_y / 2
    pixels = tuple(range(4 if pooled else 2))
    return _mean_over(s, pixels), _mean_over(t, pixels)


def _mean_over(values, pixels):
    return values.mean(pixels, dtype=torch.float64).cpu().numpy()


def _box_sums(values, width, axes):
    # Sums over the width x width pixels around each, 0 outside; axes of one tuple move alike: a
    # pair's pixels.
    for moved in axes:
        total = values.clone()
        shortest = min(values.shape[axis] for axis in moved)
        reach = min(width // 2, shortest - 1)
        for k in range(1, reach + 1):
            head = [slice(None)] * values.ndim
            tail = [slice(None)] * values.ndim
            for axis in moved:
                head[axis] = slice(0, -k)
                tail[axis] = slice(k, None)
            head = tuple(head)
            tail = tuple(tail)
            total[tail] += values[head]
            total[head] += values[tail]
        values = total
    return values
