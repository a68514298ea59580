"""Recordings of one second: checks, mel spectrograms, background noise, and the four augmentations of the paper."""

import warnings
from fractions import Fraction
from functools import cache
from numbers import Real

import numpy as np
from scipy.fft import irfft, rfft
from scipy.signal import get_window, resample_poly

from handful.checks import check_generator, check_integer, check_number

SAMPLING_RATE = 16_000  # Hz, to which the paper resamples
SAMPLING_RATES = (4_000, 192_000)  # Hz; other rates are refused as likely mistakes, such as kHz for Hz
MOST_SECONDS = 3600  # of one recording
MOST_DECIBELS = 1000
SILENCE = 1e-12  # least mel power, relative to full scale: -120 dB
CLIPPED_SHARE = 0.005  # a recording with a larger share of samples at full scale looks clipped
FULL_SCALE = 0.99
BLOCK = 256  # recordings that are transformed at a time

# The paper's augmentations (Section 5.5), applied in this order, each with probability 1/2.
AMPLITUDE, SPEED, SHIFT, SNR = (0.8, 1.2), (0.8, 1.2), (-0.25, 0.25), (0.0, 40.0)  # factor, factor, seconds, dB


def prepare(recordings, sampling_rate, *, target_rate=SAMPLING_RATE, seconds=1.0):
    """Recordings as one float32 array of equal length at one sampling rate, between -1 and 1.

    A shorter recording is centred between zeros. Of a longer one the part with the most energy is kept; a warning gives
    the number of these. Another warning gives the number of recordings that look clipped.

    Parameters
    ----------
    recordings : array, shape (n, samples), or list of n one-dimensional arrays; of integers, the largest of their type
        is full scale
    sampling_rate : number, or one number for each recording, in samples a second
    target_rate : int, sampling rate of the result
    seconds : float, length of the result

    Returns
    -------
    float32 array, shape (n, target_rate * seconds)

    Raises
    ------
    ValueError
        for no recordings, recordings that are empty, silent, stereo or not finite, floats outside -1 to 1, and sampling
        rates outside 4 to 192 kHz; the message names the recording

    Examples
    --------
    >>> import numpy as np
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(6000) / 8000)
    >>> prepare([tone], 8000).shape
    (1, 16000)
    """
    n = len(recordings) if hasattr(recordings, "__len__") else 0
    if n == 0:
        raise ValueError(f"recordings must be a list of at least one recording, got {recordings!r}.")
    if np.ndim(sampling_rate) and len(sampling_rate) != n:
        raise ValueError(
            f"sampling_rate must be one number or one for each of {n} recordings, got {len(sampling_rate)} of them."
        )
    rates = np.broadcast_to(np.asarray(sampling_rate), (n,))
    _check_rate(target_rate, "target_rate")
    samples = _duration("seconds", seconds, target_rate)
    out = np.zeros((n, samples), dtype=np.float32)
    cut, clipped, silent = [], [], []
    for i, recording in enumerate(recordings):
        _check_rate(rates[i], f"the sampling rate of recording {i}")
        sound = _full_scale(np.asarray(recording), i)
        if np.ptp(sound) == 0.0:
            silent.append(i)
            continue
        if _looks_clipped(sound):
            clipped.append(i)
        ratio = Fraction(float(target_rate)) / Fraction(float(rates[i]))
        if ratio != 1:
            ratio = ratio.limit_denominator(1000)
            sound = np.clip(resample_poly(sound, ratio.numerator, ratio.denominator), -1.0, 1.0)
        if len(sound) > samples:
            cut.append(i)
            energy = np.concatenate([[0.0], np.cumsum(sound.astype(np.float64) ** 2)])
            start = int(np.argmax(energy[samples:] - energy[:-samples]))
            sound = sound[start : start + samples]
        at = (samples - len(sound)) // 2
        out[i, at : at + len(sound)] = sound
    if silent:
        raise ValueError(
            f"{len(silent)} of {n} recordings are silent (all samples are equal), first number {silent[0]}: leave "
            "them out, as nobody can label them; `audible` says which."
        )
    if cut:
        warnings.warn(
            f"{len(cut)} of {n} recordings are longer than {seconds:g} s, first number {cut[0]}: the "
            f"{seconds:g} s with the most energy are kept.",
            stacklevel=2,
        )
    if clipped:
        warnings.warn(
            f"{len(clipped)} of {n} recordings look clipped (over {CLIPPED_SHARE:.1%} of their samples at full scale), "
            f"first number {clipped[0]}.",
            stacklevel=2,
        )
    return out


def audible(recordings):
    """Boolean array, shape (n,): whether each recording has samples that are not all equal."""
    return np.array([np.size(r) > 0 and bool(np.ptp(np.asarray(r)) > 0) for r in recordings], dtype=bool)


def _check_rate(rate, name):
    number = isinstance(rate, (Real, np.number)) and np.isfinite(rate)
    if not number or not SAMPLING_RATES[0] <= rate <= SAMPLING_RATES[1]:
        low, high = SAMPLING_RATES
        raise ValueError(f"{name} must be {low:,} to {high:,} samples a second, got {rate!r}.")


def _duration(name, seconds, rate):
    # In samples, at least one.
    check_number(name, seconds, above=0, most=MOST_SECONDS, why="it is in seconds")
    samples = round(float(rate) * float(seconds))
    if samples == 0:
        raise ValueError(f"{name} must be at least one sample, 1 / {rate:g} seconds, got {name}={seconds!r}.")
    return samples


def _full_scale(sound, i):
    if sound.ndim != 1:
        raise ValueError(f"recording {i} must have one axis (mono), got shape {sound.shape}: average its channels.")
    if len(sound) == 0:
        raise ValueError(f"recording {i} is empty.")
    if sound.dtype.kind in "iu":
        info = np.iinfo(sound.dtype)
        middle = 0.0 if sound.dtype.kind == "i" else (info.max + 1) / 2
        return (sound.astype(np.float32) - np.float32(middle)) / np.float32(info.max - middle)
    sound = sound.astype(np.float32)
    if not np.isfinite(sound).all():
        raise ValueError(f"recording {i} holds values that are not finite.")
    peak = float(np.abs(sound).max())
    if peak > 1.0 + 1e-6:
        raise ValueError(f"recording {i} must lie between -1 and 1, got a peak of {peak:.4g}: divide by full scale.")
    return sound


def _looks_clipped(sound):
    peak = np.abs(sound).max()
    return peak >= FULL_SCALE and np.mean(np.abs(sound) >= FULL_SCALE * peak) > CLIPPED_SHARE


# Spectrograms.


def mel_spectrogram(sound, sampling_rate=SAMPLING_RATE, *, window=0.128, hop=0.032, n_bins=32, span=50.0):
    """Mel spectrograms in decibels; with the paper's values, 32 x 32 for a second.

    A frame is centred on every hop, with a Hann window, and zeros beyond the ends of the recording. Its power is summed
    in triangular bins, which are equally wide on the mel scale ``2595 log10(1 + f / 700)`` from 0 to half the sampling
    rate, and given in decibels relative to the loudest bin of the recording.

    Parameters
    ----------
    sound : array, shape (n, samples) or (samples,), full scale 1
    sampling_rate : samples a second
    window, hop : float, seconds; the paper: 128 ms and 32 ms
    n_bins : int, mel bins
    span : float, decibels below the loudest bin at which values are cut off. The paper gives no value; recordings of
        the Spoken Digits differ by 40 dB in loudness, so levels are relative to each recording

    Returns
    -------
    float32 array, shape (n, n_bins, frames) or (n_bins, frames), from -span to 0 dB, the lowest frequencies first

    Raises
    ------
    ValueError
        for values that are not finite, and recordings shorter than a hop
    """
    _check_rate(sampling_rate, "sampling_rate")
    check_integer("n_bins", n_bins)
    check_number("span", span, above=0, most=MOST_DECIBELS, why="it is in dB")
    length, step = (_duration(name, value, sampling_rate) for name, value in (("window", window), ("hop", hop)))
    sound = _samples(sound, "sound")
    one = sound.ndim == 1
    sound = sound[None] if one else sound
    if sound.ndim != 2 or not np.isfinite(sound).all():
        raise ValueError(f"sound must be finite and have shape (n, samples) or (samples,), got {sound.shape}.")
    if sound.shape[1] < step:
        raise ValueError(f"recordings must have at least {step} samples (one hop), got {sound.shape[1]}.")
    weights = get_window("hann", length).astype(np.float32)
    bins = _mel_bins(sampling_rate, length, n_bins)
    frames = -(-sound.shape[1] // step)
    out = np.empty((len(sound), n_bins, frames), dtype=np.float32)
    scale = np.float32(2.0 / weights.sum()) ** 2
    for at in range(0, len(sound), BLOCK):
        padded = np.pad(sound[at : at + BLOCK], ((0, 0), (length // 2, length // 2 + step)))
        cut = np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)[:, : frames * step : step]
        spectrum = rfft(cut * weights, axis=2)
        power = spectrum.real**2 + spectrum.imag**2
        level = 10.0 * np.log10(np.maximum(scale * power @ bins.T, SILENCE)).transpose(0, 2, 1)
        out[at : at + BLOCK] = np.maximum(level - level.max(axis=(1, 2), keepdims=True), -span)
    return out[0] if one else out


def _samples(values, name):
    values = np.asarray(values)
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all() or 0 in values.shape[-1:]:
        raise ValueError(f"{name} must hold finite real numbers, at least one, got {values.dtype} {values.shape}.")
    return values.astype(np.float32)


@cache
def _mel_bins(sampling_rate, length, n_bins):
    # Shape (bins, frequencies): triangles of height 1, each from the centre of the bin before to that of the bin after.
    top = 2595.0 * np.log10(1.0 + sampling_rate / 2 / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(0.0, top, n_bins + 2) / 2595.0) - 1.0)
    f = np.arange(length // 2 + 1) * (sampling_rate / length)
    rising = (f - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - f) / np.diff(edges)[1:, None]
    return np.maximum(np.minimum(rising, falling), 0.0).astype(np.float32)


# Augmentations.


def change_amplitude(sound, factor):
    """A recording times `factor`; values beyond full scale are clipped, as by a microphone."""
    return np.clip(sound * np.float32(factor), -1.0, 1.0)


def change_speed(sound, factor):
    """A recording played `factor` times as fast, of the same length: centred between zeros, or cut at both ends."""
    ratio = Fraction(1.0 / factor).limit_denominator(50)
    played = resample_poly(sound, ratio.numerator, ratio.denominator).astype(np.float32)
    out = np.zeros_like(sound)
    shorter, at = min(len(sound), len(played)), abs(len(sound) - len(played)) // 2
    if len(played) <= len(sound):
        out[at : at + shorter] = played
    else:
        out[:] = played[at : at + shorter]
    return out


def shift(sound, n_samples):
    """A recording `n_samples` later, or earlier if negative, of the same length: the gap is filled with zeros."""
    out = np.zeros_like(sound)
    k = min(abs(n_samples), len(sound))
    if n_samples >= 0:
        out[k:] = sound[: len(sound) - k]
    else:
        out[: len(sound) - k] = sound[k:]
    return out


def mix_noise(sound, noise, snr):
    """A recording plus noise at a signal-to-noise ratio, of their mean powers, of `snr` dB."""
    power, own = np.mean(sound.astype(np.float64) ** 2), np.mean(noise.astype(np.float64) ** 2)
    if power == 0.0 or own == 0.0:
        return sound
    scale = np.sqrt(power / own * 10.0 ** (-snr / 10.0))
    return np.clip(sound + np.float32(scale) * noise, -1.0, 1.0).astype(np.float32)


def augment(sound, sampling_rate=SAMPLING_RATE, *, noise, rng, chance=0.5):
    """A random variant of each recording, by the four augmentations of Borsos et al. (2024, Section 5.5).

    In this order, each with probability `chance`: amplitude times U(0.8, 1.2); speed times U(0.8, 1.2); a shift by
    U(-250, 250) ms; background noise at a signal-to-noise ratio of U(0, 40) dB.

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
    _check_rate(sampling_rate, "sampling_rate")
    check_number("chance", chance, least=0, most=1)
    check_generator(rng)
    sound, noise = _samples(sound, "sound"), _samples(noise, "noise")
    if noise.ndim != 2 or len(noise) == 0 or sound.ndim != 2 or noise.shape[1] != sound.shape[1]:
        raise ValueError(
            f"sound and noise must have shapes (n, samples) and (k, samples) with k >= 1, got {sound.shape} and "
            f"{noise.shape}."
        )
    out = sound.copy()
    for row in out:
        used = rng.random(4) < chance
        if used[0]:
            row[:] = change_amplitude(row, rng.uniform(*AMPLITUDE))
        if used[1]:
            row[:] = change_speed(row, rng.uniform(*SPEED))
        if used[2]:
            row[:] = shift(row, round(sampling_rate * rng.uniform(*SHIFT)))
        if used[3]:
            row[:] = mix_noise(row, noise[rng.integers(len(noise))], rng.uniform(*SNR))
    return out


def background_noise(n_segments, n_samples, sampling_rate=SAMPLING_RATE, *, rng):
    """Generated noise, as a substitute for recorded noise: white, pink and brown noise, hum and murmur in turn.

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
    _check_rate(sampling_rate, "sampling_rate")
    check_integer("n_segments", n_segments)
    check_integer("n_samples", n_samples)
    check_generator(rng)
    f = np.maximum(np.fft.rfftfreq(n_samples, 1.0 / sampling_rate), 20.0)
    t = np.arange(n_samples) / sampling_rate
    out = np.empty((n_segments, n_samples))
    for i in range(n_segments):
        white = rfft(rng.normal(size=n_samples))
        exponent = (0.0, 0.5, 1.0, 0.5, 0.5)[i % 5]
        out[i] = irfft(white * f**-exponent, n=n_samples)
        out[i] /= out[i].std()
        if i % 5 == 3:  # mains hum
            mains = rng.choice([50.0, 60.0])
            out[i] *= 0.3
            for harmonic in range(1, 8):
                out[i] += np.sin(2 * np.pi * (harmonic * mains * t + rng.random())) / harmonic
        elif i % 5 == 4:  # murmur: a band of speech frequencies, swelling a few times a second
            band = np.exp(-0.5 * (np.log(f / rng.uniform(300, 1200)) / 0.6) ** 2)
            swell = 1.0 + np.sin(2 * np.pi * (rng.uniform(2, 6) * t + rng.random()))
            out[i] = irfft(rfft(out[i]) * band, n=n_samples) * swell
    return (0.1 * out / np.sqrt(np.mean(out**2, axis=1, keepdims=True))).astype(np.float32)
