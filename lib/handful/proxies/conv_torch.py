"""The recursions of `conv` as tensor operations, for any device of torch; plain enough to check the other against."""

import math

import torch
from torch.nn.functional import avg_pool2d, pad

CHUNK = 1 << 26  # pairs of pixels at a time: four to six tensors of so many values


def pairs(X, Y, image, *, filters, pooled, w_var, b_var, device):
    """As `handful.proxies.conv.pairs`, computed on `device`."""
    x, y = (torch.as_tensor(A, device=device).reshape(len(A), *image) for A in (X, Y))
    s, t = torch.empty((2, len(x), len(y)), dtype=x.dtype)
    columns = max(1, min(len(y), CHUNK // _size(image, pooled)))
    rows = max(1, CHUNK // (columns * _size(image, pooled)))
    for i in range(0, len(x), rows):
        for j in range(0, len(y), columns):
            a, b = x[i : i + rows, None], y[None, j : j + columns]
            part = _recursion(a, b, filters, pooled, float(w_var), float(b_var))
            s[i : i + rows, j : j + columns], t[i : i + rows, j : j + columns] = part
    return s.numpy(), t.numpy()


def selves(X, image, *, filters, pooled, w_var, b_var, device):
    """As `handful.proxies.conv.selves`, computed on `device`."""
    x = torch.as_tensor(X, device=device).reshape(len(X), 1, *image)
    chunks = x.split(max(1, CHUNK // _size(image, pooled)))
    parts = [_recursion(a, a, filters, pooled, float(w_var), float(b_var)) for a in chunks]
    s, t = (torch.cat(part)[:, 0].cpu().numpy() for part in zip(*parts))
    return s, t


def _size(image, pooled):
    pixels = image[1] * image[2]
    return pixels**2 if pooled else pixels


def _recursion(x, y, filters, pooled, w_var, b_var):
    """Means over pixels, shape (n, m), for images of shapes (n, 1, channels, height, width) and (1 or n, m, ...)."""
    same = "nmchw,nmchw->nmhw" if not pooled else "nmchw,nmcij->nmhwij"
    channels = x.shape[2]
    x, y = torch.broadcast_tensors(x, y) if x.shape[0] != y.shape[0] or x.shape[1] != y.shape[1] else (x, y)
    s = torch.einsum(same, x, y) / channels
    t = torch.zeros_like(s)
    q_x, q_y = x.square().mean(2), y.square().mean(2)
    for width in filters:
        s = w_var * _patches(s, width) + b_var
        t = s + w_var * _patches(t, width)
        q_x, q_y = (w_var * _patches(q, width) + b_var for q in (q_x, q_y))
        norm = (q_x[..., None, None] * q_y[:, :, None, None] if pooled else q_x * q_y).sqrt()
        cosine = torch.where(norm > 0, s / norm, 0).clamp(-1, 1)
        past = math.pi - torch.acos(cosine)
        s = norm * ((1 - cosine.square()).sqrt() + past * cosine) / (2 * math.pi)
        t = t * past / (2 * math.pi)
        q_x, q_y = q_x / 2, q_y / 2
    pixels = tuple(range(2, s.ndim))
    return s.mean(pixels), t.mean(pixels)


def _patches(values, width):
    """Means over the width x width pixels around each; both pixels of a pair move alike. Outside there is 0."""
    r = width // 2
    if values.ndim == 4:
        return avg_pool2d(values, width, stride=1, padding=r)
    height, columns = values.shape[2:4]
    rows = pad(values, (0, 0, r, r, 0, 0, r, r))
    rows = sum(rows[:, :, a : a + height, :, a : a + height] for a in range(width))
    both = pad(rows, (r, r, 0, 0, r, r))
    return sum(both[:, :, :, a : a + columns, :, a : a + columns] for a in range(width)) / width**2
