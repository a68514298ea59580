"""Tones of gliding colour, where no recordings may be downloaded."""

import numpy as np


def spoken_tones(n, *, n_classes=10, sampling_rate=8000, rng):
    """Recordings of one second that behave like spoken words: tones whose colour glides, in random
    voices.

    Every class is a sequence of three vowel-like colours with two resonances each, the same in
    every call. Every recording has its own pitch, speed, start, loudness and hiss, and one of six
    voices with resonances of its own. This is not speech: it stands in where nothing may be
    downloaded.

    Parameters
    ----------
    n : int, recordings; the numbers of recordings of two classes differ by at most 1
    n_classes : int, at most 20
    sampling_rate : int, samples a second, at least 8,000
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : int16 array, shape (n, sampling_rate)
    y : int array, shape (n,), 0..n_classes-1
    """
    # Hz
    words = np.random.default_rng(20).uniform([300, 900], [900, 2600], size=(20, 3, 2))
    y = rng.permutation(np.arange(n) % n_classes)
    X = np.zeros((n, sampling_rate), dtype=np.int16)
    for row, word in zip(X, y):
        voice = rng.integers(6)
        pitch = (95, 115, 140, 170, 200, 230)[voice] * rng.uniform(0.93, 1.07)
        resonances = words[word] * (0.9 + 0.04 * voice) * rng.uniform(0.94, 1.06, size=(3, 2))
        length = int(sampling_rate * rng.uniform(0.3, 0.65))
        at = np.linspace(0.0, 2.0, length)
        phase = 2 * np.pi * np.cumsum(pitch * (1.1 - 0.1 * at)) / sampling_rate
        glide = [np.interp(at, [0, 1, 2], resonances[:, j])[:, None] for j in range(2)]
        harmonics = np.arange(1, int(3600 / pitch))
        colour = sum(np.exp(-0.5 * ((harmonics * pitch - f) / 120.0) ** 2) for f in glide) + 0.01
        sound = np.sum(colour * np.sin(phase[:, None] * harmonics), axis=1)
        sound *= np.sin(np.pi * np.linspace(0, 1, length)) ** 0.5
        sound /= np.abs(sound).max()
        start = rng.integers(0, sampling_rate - length)
        loudness = 10.0 ** rng.uniform(-1.3, -0.2)
        whole = rng.normal(scale=10.0 ** rng.uniform(-3, -1.5), size=sampling_rate)
        whole[start : start + length] += sound
        row[:] = np.clip(32767 * loudness * whole, -32767, 32767)
    return X, y
