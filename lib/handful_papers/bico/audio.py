"""Recordings of one second: mel spectrograms, background noise, and the four augmentations of the
paper."""

from fractions import Fraction
from functools import cache

import numpy as np
from handful.running import one_blas_thread
from scipy.fft import irfft, rfft
from scipy.signal import get_window, resample_poly

# The rate in Hz to which the paper resamples.
SAMPLING_RATE = 16_000
# The least mel power, relative to full scale: -120 dB.
SILENCE = 1e-12
# Recordings that are transformed at a time.
BLOCK = 256

# The paper's augmentations (Section 5.5), applied in this order, each with probability 1/2. The
# first two are factors; a shift is in seconds, the signal-to-noise ratio in dB.
AMPLITUDE = (0.8, 1.2)
SPEED = (0.8, 1.2)
SHIFT = (-0.25, 0.25)
SNR = (0.0, 40.0)


def prepare(recordings, sampling_rate, *, target_rate=SAMPLING_RATE, seconds=1.0):
    """Recordings as one float32 array of equal length at one sampling rate, between -1 and 1.

    A shorter recording is centred between zeros; of a longer one the part with the most energy is
    kept.

    Parameters
    ----------
    recordings : array, shape (n, samples), or list of n one-dimensional arrays; of integers, the
        largest of their type is full scale
    sampling_rate : number, or one number for each recording, in samples a second
    target_rate : int, sampling rate of the result
    seconds : float, length of the result

    Returns
    -------
    float32 array, shape (n, target_rate * seconds)

    Raises
    ------
    ValueError
        for recordings that are empty, silent, stereo or not finite, and floats outside -1 to 1
    """
    n = len(recordings)
    samples = round(target_rate * seconds)
    out = np.zeros((n, samples), dtype=np.float32)
    rates = np.broadcast_to(sampling_rate, (n,))
    for i, (recording, rate) in enumerate(zip(recordings, rates)):
        sound = full_scale(np.asarray(recording), f"recording {i}")
        ratio = Fraction(float(target_rate)) / Fraction(float(rate))
        if ratio != 1:
            ratio = ratio.limit_denominator(1000)
            sound = np.clip(resample_poly(sound, ratio.numerator, ratio.denominator), -1.0, 1.0)
        if len(sound) > samples:
            energy = np.concatenate([[0.0], np.cumsum(sound.astype(np.float64) ** 2)])
            loudest = int(np.argmax(energy[samples:] - energy[:-samples]))
            sound = sound[loudest:]
        out[i] = _centred(sound[:samples], samples)
    return out


def full_scale(sound, name):
    """A recording of integers or floats as float32 from -1 to 1; a `ValueError` about `name` if it
    is no recording."""
    is_mono = sound.ndim == 1 and len(sound) > 0
    if not is_mono or not np.isfinite(sound).all() or np.ptp(sound) == 0:
        raise ValueError(
            f"{name} must be mono, finite and not silent, got {sound.dtype} of shape {sound.shape}."
        )
    if sound.dtype.kind in "iu":
        top = np.iinfo(sound.dtype).max
        middle = 0.0 if sound.dtype.kind == "i" else (top + 1) / 2
        return (sound.astype(np.float32) - np.float32(middle)) / np.float32(top - middle)
    sound = sound.astype(np.float32)
    if np.abs(sound).max() > 1.0 + 1e-6:
        raise ValueError(
            f"{name} must lie between -1 and 1, got {np.abs(sound).max():.4g}: divide by full "
            "scale."
        )
    return sound


def _centred(sound, n):
    # The result has n samples: between zeros, or cut at both ends.
    missing = n - len(sound)
    if missing < 0:
        return sound[-missing // 2 :][:n]
    return np.pad(sound, (missing // 2, missing - missing // 2))


# Spectrograms.


def mel_spectrogram(
    sound, sampling_rate=SAMPLING_RATE, *, window=0.128, hop=0.032, n_bins=32, span=50.0
):
    """Mel spectrograms in decibels; with the paper's values, 32 x 32 for a second.

    A frame is centred on every hop, with a Hann window, and zeros beyond the ends of the recording.
    Its power is summed in triangular bins, which are equally wide on the mel scale ``2595 log10(1 +
    f / 700)`` from 0 to half the sampling rate, and given in decibels relative to the loudest bin
    of the recording.

    Parameters
    ----------
    sound : array, shape (n, samples) or (samples,), full scale 1
    sampling_rate : samples a second
    window, hop : float, seconds; the paper: 128 ms and 32 ms
    n_bins : int, mel bins
    span : float, decibels below the loudest bin at which values are cut off. The paper gives no
        value; recordings of the Spoken Digits differ by 40 dB in loudness, so levels are relative
        to each recording

    Returns
    -------
    float32 array, shape (n, n_bins, frames) or (n_bins, frames), from -span to 0 dB, the lowest
    frequencies first
    """
    length = round(window * sampling_rate)
    step = round(hop * sampling_rate)
    one = np.ndim(sound) == 1
    sound = np.atleast_2d(np.asarray(sound, dtype=np.float32))
    weights = get_window("hann", length).astype(np.float32)
    bins = _mel_bins(sampling_rate, length, n_bins)
    frames = -(-sound.shape[1] // step)
    out = np.empty((len(sound), n_bins, frames), dtype=np.float32)
    scale = np.float32(2.0 / weights.sum()) ** 2
    beyond = ((0, 0), (length // 2, length // 2 + step))
    for at in range(0, len(sound), BLOCK):
        block = slice(at, at + BLOCK)
        padded = np.pad(sound[block], beyond)
        windows = np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)
        spectrum = rfft(windows[:, : frames * step : step] * weights, axis=2)
        power = spectrum.real**2 + spectrum.imag**2
        # One thread, so that the digits do not depend on their number.
        with one_blas_thread():
            energy = scale * power @ bins.T
        level = 10.0 * np.log10(np.maximum(energy, SILENCE)).transpose(0, 2, 1)
        loudest = level.max(axis=(1, 2), keepdims=True)
        out[block] = np.maximum(level - loudest, -span)
    return out[0] if one else out


@cache
def _mel_bins(sampling_rate, length, n_bins):
    # Shape (bins, frequencies): triangles of height 1, each from the centre of the bin before to
    # that of the bin after.
    top = 2595.0 * np.log10(1.0 + sampling_rate / 2 / 700.0)
    mels = np.linspace(0.0, top, n_bins + 2)
    edges = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    f = np.arange(length // 2 + 1) * (sampling_rate / length)
    rising = (f - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - f) / np.diff(edges)[1:, None]
    return np.maximum(np.minimum(rising, falling), 0.0).astype(np.float32)


# Augmentations.


def change_speed(sound, factor):
    """A recording played `factor` times as fast, of the same length: centred between zeros, or cut
    at both ends."""
    ratio = Fraction(1.0 / factor).limit_denominator(50)
    resampled = resample_poly(sound, ratio.numerator, ratio.denominator)
    return _centred(resampled.astype(np.float32), len(sound))


def shift(sound, n_samples):
    """A recording `n_samples` later, or earlier if negative, of the same length: the gap is filled
    with zeros."""
    k = min(abs(n_samples), len(sound))
    start = k - np.clip(n_samples, -k, k)
    return np.pad(sound, k)[start : start + len(sound)]


def mix_noise(sound, noise, snr):
    """A recording plus noise at a signal-to-noise ratio, of their mean powers, of `snr` dB."""
    power = np.mean(sound.astype(np.float64) ** 2)
    own = np.mean(noise.astype(np.float64) ** 2)
    if power == 0.0 or own == 0.0:
        return sound
    scale = np.sqrt(power / own * 10.0 ** (-snr / 10.0))
    return np.clip(sound + np.float32(scale) * noise, -1.0, 1.0).astype(np.float32)


def augment(
    sound,
    sampling_rate=SAMPLING_RATE,
    *,
    noise,
    rng,
    chance=0.5,
):
    """A random variant of each recording, by the four augmentations of Borsos et al. (2024, Section
    5.5).

    In this order, each with probability `chance`: amplitude times U(0.8, 1.2); speed times U(0.8,
    1.2); a shift by U(-250, 250) ms; background noise at a signal-to-noise ratio of U(0, 40) dB.

    Parameters
    ----------
    sound : float array, shape (n, samples), full scale 1
    sampling_rate : samples a second
    noise : array, shape (k, samples), a random row of which is added; see `background_noise`
    rng : numpy.random.Generator
    chance : float, probability of each augmentation

    Returns
    -------
    float32 array, shape (n, samples)
    """
    out = np.array(sound, dtype=np.float32)
    for row in out:
        used = rng.random(4) < chance
        if used[0]:
            louder = row * np.float32(rng.uniform(*AMPLITUDE))
            # It clips, as a microphone does.
            row[:] = np.clip(louder, -1.0, 1.0)
        if used[1]:
            row[:] = change_speed(row, rng.uniform(*SPEED))
        if used[2]:
            row[:] = shift(row, round(sampling_rate * rng.uniform(*SHIFT)))
        if used[3]:
            one = noise[rng.integers(len(noise))]
            row[:] = mix_noise(row, one, rng.uniform(*SNR))
    return out


def background_noise(n_segments, n_samples, sampling_rate=SAMPLING_RATE, *, rng):
    """Generated noise, as a substitute for recorded noise: white, pink and brown noise, hum and
    murmur in turn.

    Parameters
    ----------
    n_segments : int
    n_samples : int, of each segment
    sampling_rate : samples a second
    rng : numpy.random.Generator

    Returns
    -------
    float32 array, shape (n_segments, n_samples), root mean square 0.1
    """
    f = np.maximum(np.fft.rfftfreq(n_samples, 1.0 / sampling_rate), 20.0)
    t = np.arange(n_samples) / sampling_rate
    out = np.empty((n_segments, n_samples))
    for i in range(n_segments):
        white = rfft(rng.normal(size=n_samples))
        exponent = (0.0, 0.5, 1.0, 0.5, 0.5)[i % 5]
        out[i] = irfft(white * f**-exponent, n=n_samples)
        out[i] /= out[i].std()
        if i % 5 == 3:
            # The hum of mains, with its harmonics.
            mains = rng.choice([50.0, 60.0])
            out[i] *= 0.3
            for harmonic in range(1, 8):
                turns = harmonic * mains * t + rng.random()
                out[i] += np.sin(2 * np.pi * turns) / harmonic
        elif i % 5 == 4:
            # Murmur: a band of speech frequencies, swelling a few times a second.
            octaves = np.log(f / rng.uniform(300, 1200))
            band = np.exp(-0.5 * (octaves / 0.6) ** 2)
            turns = rng.uniform(2, 6) * t + rng.random()
            swell = 1.0 + np.sin(2 * np.pi * turns)
            out[i] = irfft(rfft(out[i]) * band, n=n_samples) * swell
    power = np.mean(out**2, axis=1, keepdims=True)
    return (0.1 * out / np.sqrt(power)).astype(np.float32)
