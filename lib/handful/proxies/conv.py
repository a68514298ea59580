"""Covariances and tangent kernels of convolutional layers, for every pair of images.

Pixels of 16 images, of small ones more, lie side by side in memory (a lane each), so that every loop runs over whole
rows of them. With a flatten head only pairs of pixels at the same place matter. With global average pooling all pairs
do; but a convolution moves both pixels alike, so that pairs at one offset (dy, dx) from each other never meet those at
another: each offset is a small image of its own, the overlap of x with the shifted y, and goes through the same loops.
"""

import numpy as np
from numba import njit, prange

from handful.proxies.arccos import FAST, deviations, relu_layer

ROW = 512  # values in a row of pixels, about: long enough for vector loops, short enough for the nearest cache


def in_lanes(X, image, lanes):
    """Rows as blocks of images: (n, d) to (blocks, channels, height, width * lanes), the last block filled with 0."""
    channels, height, width = image
    n = len(X)
    blocks = -(-n // lanes)
    out = np.zeros((blocks * lanes, channels, height, width), dtype=X.dtype)
    out[:n] = X.reshape(n, channels, height, width)
    out = out.reshape(blocks, lanes, channels, height, width).transpose(0, 2, 3, 4, 1)
    return np.ascontiguousarray(out).reshape(blocks, channels, height, width * lanes)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _add_taps(source, start, step, taps, out):
    """out[e] = the sum of source[start + k * step + e] over k < taps."""
    n = len(out)
    a = source[start : start + n]
    b = source[start + step : start + step + n] if taps > 1 else a
    c = source[start + 2 * step : start + 2 * step + n] if taps > 2 else a
    if taps == 1:
        out[:] = a
        return
    for e in range(n):
        out[e] = a[e] + b[e] + c[e]
    for k in range(3, taps, 2):  # taps is odd
        b = source[start + k * step : start + k * step + n]
        c = source[start + (k + 1) * step : start + (k + 1) * step + n]
        for e in range(n):
            out[e] += b[e] + c[e]


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _convolve_row(source, row, pad, taps, lanes, stride, across, out):
    """Sum over the taps x taps neighbours of each pixel of one row of a padded image."""
    _add_taps(source, (row + pad - taps // 2) * stride, stride, taps, across)
    _add_taps(across, (pad - taps // 2) * lanes, lanes, taps, out)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _clear_border(padded, rows, n, side, pad):
    """Zeros above, below and on both sides of `rows` rows of n values."""
    stride = n + 2 * side
    padded[: pad * stride + side] = 0
    for i in range(rows):
        end = (pad + i) * stride + side + n
        padded[end : end + 2 * side] = 0
    padded[(pad + rows) * stride : (2 * pad + rows) * stride] = 0


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _deviations_of(block, network, scale, inverse):
    """Standard deviations before each ReLU and their inverses, shape (layers, height, width * lanes), of a block."""
    taps, weight, bias, pad, lanes = network
    channels, height, length = block.shape
    stride = length + 2 * pad * lanes
    old = np.zeros((height + 2 * pad) * stride, dtype=block.dtype)
    new = np.zeros_like(old)
    across, row = np.empty(stride, dtype=block.dtype), np.empty(length, dtype=block.dtype)
    half = block.dtype.type(0.5)
    for i in range(height):
        target = old[(i + pad) * stride + pad * lanes :][:length]
        for c in range(channels):
            for e in range(length):
                target[e] += block[c, i, e] * block[c, i, e]
    for k in range(len(taps)):
        for i in range(height):
            target = new[(i + pad) * stride + pad * lanes :][:length]
            _convolve_row(old, i, pad, taps[k], lanes, stride, across, row)
            for e in range(length):
                row[e] = weight[k] * row[e] + bias
            deviations(row, scale[k, i], inverse[k, i])
            for e in range(length):  # in the steps in which `relu_layer` computes it, for the same rounding
                target[e] = (scale[k, i, e] * scale[k, i, e]) * half
        old, new = new, old


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _add_pairs(x, y, of_x, of_y, dy, dx, network, scratch, total_s, total_t):
    """Add, lane by lane, what comes out of the last ReLU, over all pairs of pixels (p, p + (dy, dx)).

    Parameters
    ----------
    x, y : blocks of images, shape (channels, height, width * lanes)
    of_x, of_y : their deviations and inverses, shape (2, layers, height, width * lanes)
    network : (taps, weight, bias, pad, lanes), of `_network`
    scratch : shape (7, at least the size of a padded image)
    total_s, total_t : covariances and tangent kernels, shape (lanes,)
    """
    taps, weight, bias, pad, lanes = network
    channels, height, length = x.shape
    rows, n = height - abs(dy), length - abs(dx) * lanes
    top_x, top_y = max(0, -dy), max(0, dy)
    left_x, left_y = max(0, -dx) * lanes, max(0, dx) * lanes
    stride = n + 2 * pad * lanes
    first = pad * stride + pad * lanes
    for padded in scratch[:4]:
        _clear_border(padded, rows, n, pad * lanes, pad)
    s, t, next_s, next_t, across = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    sum_s, sum_t = scratch[5, :n], scratch[6, :n]
    for i in range(rows):
        target = s[first + i * stride :][:n]
        for c in range(channels):
            a, b = x[c, top_x + i, left_x : left_x + n], y[c, top_y + i, left_y : left_y + n]
            if c == 0:
                for e in range(n):
                    target[e] = a[e] * b[e]
            else:
                for e in range(n):
                    target[e] += a[e] * b[e]
    for k in range(len(taps)):
        w = weight[k]
        for i in range(rows):
            to_s = next_s[first + i * stride :][:n]
            to_t = next_t[first + i * stride :][:n]
            _convolve_row(s, i, pad, taps[k], lanes, stride, across[:stride], sum_s)
            if k == 0:
                for e in range(n):
                    to_s[e] = w * sum_s[e] + bias
                    to_t[e] = to_s[e]
            else:
                _convolve_row(t, i, pad, taps[k], lanes, stride, across[:stride], sum_t)
                for e in range(n):
                    to_s[e] = w * sum_s[e] + bias
                    to_t[e] = to_s[e] + w * sum_t[e]
            relu_layer(
                to_s,
                to_t,
                of_x[0, k, top_x + i, left_x : left_x + n],
                of_y[0, k, top_y + i, left_y : left_y + n],
                of_x[1, k, top_x + i, left_x : left_x + n],
                of_y[1, k, top_y + i, left_y : left_y + n],
            )
        s, next_s = next_s, s
        t, next_t = next_t, t
    row_s, row_t = across[:lanes], across[lanes : 2 * lanes]
    for i in range(rows):
        row_s[:] = 0
        row_t[:] = 0
        for j in range(n // lanes):
            at = first + i * stride + j * lanes
            for lane in range(lanes):
                row_s[lane] += s[at + lane]
                row_t[lane] += t[at + lane]
        for lane in range(lanes):  # in float64: with pooling there may be a million terms
            total_s[lane] += row_s[lane]
            total_t[lane] += row_t[lane]


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _add_head(x, y, of_x, of_y, pooled, network, scratch, total_s, total_t):
    """`_add_pairs` for the pairs that the head needs: one offset to flatten, all of them to pool."""
    height, width = x.shape[1], x.shape[2] // network[4]
    far_y, far_x = (height - 1, width - 1) if pooled else (0, 0)
    for dy in range(-far_y, far_y + 1):
        for dx in range(-far_x, far_x + 1):
            _add_pairs(x, y, of_x, of_y, dy, dx, network, scratch, total_s, total_t)


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def conv_pairs(X, blocks, of_blocks, pooled, network, s, t):
    """Covariances `s` and tangent kernels `t`, summed over pairs of pixels, of images and blocks of images.

    Parameters
    ----------
    X : shape (n, channels, height, width)
    blocks : of `in_lanes`; of_blocks : their deviations and inverses, of `block_deviations`
    pooled : all pairs of pixels instead of those at the same place
    network : (taps, weight, bias, pad, lanes), of `_network`
    s, t : float64, shape (n, blocks * lanes), zeros; they are added to
    """
    _, channels, height, width = X.shape
    taps, _, _, pad, lanes = network
    for i in prange(len(X)):
        x = np.empty((channels, height, width * lanes), dtype=X.dtype)
        of_x = np.empty((2, len(taps), height, width * lanes), dtype=X.dtype)
        scratch = np.empty((7, (height + 2 * pad) * (width + 2 * pad) * lanes), dtype=X.dtype)
        for c in range(channels):
            for row in range(height):
                for column in range(width):
                    x[c, row, column * lanes : (column + 1) * lanes] = X[i, c, row, column]
        _deviations_of(x, network, of_x[0], of_x[1])
        for b in range(len(blocks)):
            to_s, to_t = s[i, b * lanes : (b + 1) * lanes], t[i, b * lanes : (b + 1) * lanes]
            _add_head(x, blocks[b], of_x, of_blocks[b], pooled, network, scratch, to_s, to_t)


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def conv_selves(blocks, of_blocks, pooled, network, s, t):
    """As `conv_pairs`, of each image with itself; `s` and `t` have shape (blocks * lanes,)."""
    _, _, _, pad, lanes = network
    height, width = blocks.shape[2], blocks.shape[3] // lanes
    for b in prange(len(blocks)):
        scratch = np.empty((7, (height + 2 * pad) * (width + 2 * pad) * lanes), dtype=blocks.dtype)
        x, of_x = blocks[b], of_blocks[b]
        to_s, to_t = s[b * lanes : (b + 1) * lanes], t[b * lanes : (b + 1) * lanes]
        _add_head(x, x, of_x, of_x, pooled, network, scratch, to_s, to_t)


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def block_deviations(blocks, network):
    """Deviations before each ReLU and their inverses, shape (blocks, 2, layers, height, width * lanes)."""
    n, _, height, length = blocks.shape
    out = np.empty((n, 2, len(network[0]), height, length), dtype=blocks.dtype)
    for b in prange(n):
        _deviations_of(blocks[b], network, out[b, 0], out[b, 1])
    return out


def pairs(X, Y, image, *, filters, pooled, w_var, b_var):
    """Covariances and tangent kernels of all pairs of images after convolutions, ReLUs and a head.

    Parameters
    ----------
    X, Y : shapes (n, d) and (m, d), of one dtype
    image : (channels, height, width)
    filters : tuple of odd int
    pooled : global average pooling; else flatten
    w_var, b_var : variances of weights (times the fan-in) and of biases

    Returns
    -------
    two arrays, shape (n, m)
    """
    network = _network(X.dtype, image, filters, w_var, b_var)
    lanes = network[-1]
    blocks = in_lanes(Y, image, lanes)
    s = np.zeros((len(X), len(blocks) * lanes))
    t = np.zeros_like(s)
    images = np.ascontiguousarray(X).reshape(len(X), *image)
    conv_pairs(images, blocks, block_deviations(blocks, network), pooled, network, s, t)
    return tuple(_mean(total[:, : len(Y)], image, pooled, X.dtype) for total in (s, t))


def selves(X, image, *, filters, pooled, w_var, b_var):
    """As `pairs`, of each image with itself: two arrays, shape (n,)."""
    network = _network(X.dtype, image, filters, w_var, b_var)
    lanes = network[-1]
    blocks = in_lanes(X, image, lanes)
    s = np.zeros(len(blocks) * lanes)
    t = np.zeros_like(s)
    conv_selves(blocks, block_deviations(blocks, network), pooled, network, s, t)
    return tuple(_mean(total[: len(X)], image, pooled, X.dtype) for total in (s, t))


def _network(dtype, image, filters, w_var, b_var):
    """Widths of the filters, weights of the sums over them, variance of the biases, half the widest, lanes."""
    taps = np.array(filters, dtype=np.int64)
    weight = np.full(len(taps), w_var) / taps**2
    weight[0] /= image[0]  # the fan-in of the first layer counts the channels
    lanes = 16 * max(1, min(8, ROW // (16 * image[2])))
    return taps, weight.astype(dtype), dtype.type(b_var), int(taps.max()) // 2, lanes


def _mean(total, image, pooled, dtype):
    pixels = image[1] * image[2]
    return (total / (pixels**2 if pooled else pixels)).astype(dtype)
