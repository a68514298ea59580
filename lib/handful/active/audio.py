"""Recordings of one second: checks, mel spectrograms, background noise and the four augmentations of the paper."""

import warnings
from fractions import Fraction
from functools import cache
from numbers import Real

import numpy as np
from scipy.fft import irfft, rfft
from scipy.signal import get_window, resample_poly

RATE = 16_000  # Hz, to which the paper resamples
RATES = (4_000, 192_000)  # Hz; what lies outside is taken for a slip (kHz for Hz)
SILENCE = 1e-12  # mel power relative to full scale; 120 dB down
CLIPPED_SHARE = 0.005  # of a recording's samples at its peak level, from which it counts as clipped
FULL_SCALE = 0.99
BLOCK = 256  # recordings whose frames are held in memory at a time

# The paper's augmentations (Section 5.5), applied in this order, each with probability 1/2.
AMPLITUDE, SPEED, SHIFT, SNR = (0.8, 1.2), (0.8, 1.2), (-0.25, 0.25), (0.0, 40.0)  # factor, factor, seconds, dB


def prepare(recordings, rate, *, target_rate=RATE, seconds=1.0):
    """Recordings as one float32 array of equal length at one rate, between -1 and 1.

    Shorter recordings are centred between zeros; of longer ones the stretch with the most energy is kept, and a warning
    says of how many. Another warning counts those that look clipped.

    Parameters
    ----------
    recordings : array, shape (n, samples), or list of n one-dimensional arrays; integers count as parts of full scale
    rate : samples a second, one number or one for each recording
    target_rate : samples a second of the result
    seconds : length of the result

    Returns
    -------
    float32 array, shape (n, target_rate * seconds)

    Raises
    ------
    ValueError
        for no recordings, empty, silent, stereo or non-finite ones, floats beyond -1..1, and rates outside 4 kHz..192
        kHz; the message names the recording.

    Examples
    --------
    >>> import numpy as np
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(6000) / 8000)
    >>> prepare([tone], 8000).shape
    (1, 16000)
    """
    n = len(recordings)
    if n == 0:
        raise ValueError("recordings is empty: at least one is needed.")
    rates = np.broadcast_to(np.asarray(rate), (n,)) if np.ndim(rate) == 0 or len(rate) == n else None
    if rates is None:
        raise ValueError(f"rate must be one number or one for each of {n} recordings, got {len(rate)} of them.")
    _check_rate(target_rate, "target_rate")
    samples = round(target_rate * seconds)
    out = np.zeros((n, samples), dtype=np.float32)
    cut, clipped, silent = [], [], []
    for i, recording in enumerate(recordings):
        _check_rate(rates[i], f"the rate of recording {i}")
        sound = _full_scale(np.asarray(recording), i)
        if np.ptp(sound) == 0.0:
            silent.append(i)
            continue
        if _looks_clipped(sound):
            clipped.append(i)
        ratio = Fraction(target_rate) / Fraction(rates[i].item())
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
            f"{len(silent)} of {n} recordings are silent (every sample the same), first number {silent[0]}: nobody can "
            "label them; leave them out, `audible` says which."
        )
    if cut:
        warnings.warn(
            f"{len(cut)} of {n} recordings are longer than {seconds:g} s, first number {cut[0]}: the {seconds:g} s "
            "with the most energy are kept.",
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
    """Boolean mask, shape (n,): False where all samples of a recording are the same."""
    return np.array([np.size(r) > 0 and bool(np.ptp(np.asarray(r)) > 0) for r in recordings], dtype=bool)


def _check_rate(rate, name):
    number = isinstance(rate, (Real, np.number)) and np.isfinite(rate)
    if not number or not RATES[0] <= rate <= RATES[1]:
        raise ValueError(f"{name} must be {RATES[0]:,} to {RATES[1]:,} samples a second, got {rate!r}.")


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


def mel_spectrogram(sound, rate=RATE, *, window=0.128, hop=0.032, n_bins=32, span=50.0):
    """Mel spectrograms in decibels: at the paper's values 32 x 32 for a second.

    Frames of a Hann window, centred on every hop, zeros beyond the ends; power in triangular bins, equally wide on the
    mel scale ``2595 log10(1 + f / 700)`` from 0 to half the rate; then decibels below the recording's loudest bin.

    Parameters
    ----------
    sound : array, shape (n, samples) or (samples,), full scale 1
    rate : samples a second
    window, hop : seconds; the paper: 128 ms and 32 ms
    n_bins : mel bins
    span : decibels below the loudest bin at which everything counts as silence (the paper does not say; recordings of
        the Spoken Digits differ by 40 dB in loudness, so absolute levels say little)

    Returns
    -------
    float32 array, shape (n, n_bins, frames) or (n_bins, frames), from -span to 0 dB; low frequencies first

    Raises
    ------
    ValueError
        for values that are not finite and recordings shorter than a hop.
    """
    _check_rate(rate, "rate")
    sound = np.asarray(sound, dtype=np.float32)
    one = sound.ndim == 1
    sound = sound[None] if one else sound
    if sound.ndim != 2 or not np.isfinite(sound).all():
        raise ValueError(f"sound must be finite and have shape (n, samples) or (samples,), got {sound.shape}.")
    length, step = round(window * rate), round(hop * rate)
    if sound.shape[1] < step:
        raise ValueError(f"recordings must have at least {step} samples (one hop), got {sound.shape[1]}.")
    weights = get_window("hann", length).astype(np.float32)
    bins = _mel_bins(rate, length, n_bins)
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


@cache
def _mel_bins(rate, length, n_bins):
    # shape (bins, frequencies): triangles of height 1, each from the centre before to the centre after
    top = 2595.0 * np.log10(1.0 + rate / 2 / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(0.0, top, n_bins + 2) / 2595.0) - 1.0)
    f = np.arange(length // 2 + 1) * (rate / length)
    rising = (f - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - f) / np.diff(edges)[1:, None]
    return np.maximum(np.minimum(rising, falling), 0.0).astype(np.float32)


# Augmentations.


def change_amplitude(sound, factor):
    """A recording, `factor` times as loud; what exceeds full scale is clipped, as a microphone would."""
    return np.clip(sound * np.float32(factor), -1.0, 1.0)


def change_speed(sound, factor):
    """A recording played `factor` times as fast, shape unchanged: centred between zeros, or cut at both ends."""
    ratio = Fraction(1.0 / factor).limit_denominator(50)
    played = resample_poly(sound, ratio.numerator, ratio.denominator).astype(np.float32)
    out = np.zeros_like(sound)
    shorter, at = min(len(sound), len(played)), abs(len(sound) - len(played)) // 2
    if len(played) <= len(sound):
        out[at : at + shorter] = played
    else:
        out[:] = played[at : at + shorter]
    return out


def shift(sound, samples):
    """A recording `samples` later (earlier if negative); zeros come in where it left."""
    out = np.zeros_like(sound)
    k = min(abs(samples), len(sound))
    if samples >= 0:
        out[k:] = sound[: len(sound) - k]
    else:
        out[: len(sound) - k] = sound[k:]
    return out


def mix_noise(sound, noise, snr):
    """A recording with noise under it at a signal-to-noise ratio of `snr` dB, by their mean powers."""
    power, own = np.mean(sound.astype(np.float64) ** 2), np.mean(noise.astype(np.float64) ** 2)
    if power == 0.0 or own == 0.0:
        return sound
    scale = np.sqrt(power / own * 10.0 ** (-snr / 10.0))
    return np.clip(sound + np.float32(scale) * noise, -1.0, 1.0).astype(np.float32)


def augment(sound, rate=RATE, *, noise, rng, chance=0.5):
    """A random variant of each recording, by the four augmentations of Borsos et al. (2024, Section 5.5).

    In this order, each with probability `chance`: amplitude times U(0.8, 1.2); speed times U(0.8, 1.2); a shift by
    U(-250, 250) ms; background noise at a signal-to-noise ratio of U(0, 40) dB.

    Parameters
    ----------
    sound : float array, shape (n, samples), full scale 1
    rate : samples a second
    noise : array, shape (k, samples), of which one row is drawn each time; see `background_noise`
    rng : numpy.random.Generator
    chance : probability of each augmentation

    Returns
    -------
    float32 array, shape (n, samples)
    """
    _check_rate(rate, "rate")
    sound, noise = np.asarray(sound, dtype=np.float32), np.asarray(noise, dtype=np.float32)
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
            row[:] = shift(row, round(rate * rng.uniform(*SHIFT)))
        if used[3]:
            row[:] = mix_noise(row, noise[rng.integers(len(noise))], rng.uniform(*SNR))
    return out


def background_noise(n, samples, rate=RATE, *, rng):
    """Generated noise where recorded noise is not at hand: white, pink and brown noise, hum and murmur in turn.

    Parameters
    ----------
    n : int, segments
    samples : int, of each
    rate : samples a second
    rng : numpy.random.Generator

    Returns
    -------
    float32 array, shape (n, samples), root mean square 0.1
    """
    _check_rate(rate, "rate")
    f = np.maximum(np.fft.rfftfreq(samples, 1.0 / rate), 20.0)
    t = np.arange(samples) / rate
    out = np.empty((n, samples))
    for i in range(n):
        white = rfft(rng.normal(size=samples))
        exponent = (0.0, 0.5, 1.0, 0.5, 0.5)[i % 5]
        out[i] = irfft(white * f**-exponent, n=samples)
        out[i] /= out[i].std()
        if i % 5 == 3:  # mains hum
            mains = rng.choice([50.0, 60.0])
            out[i] *= 0.3
            for harmonic in range(1, 8):
                out[i] += np.sin(2 * np.pi * (harmonic * mains * t + rng.random())) / harmonic
        elif i % 5 == 4:  # murmur: a band of speech frequencies, swelling a few times a second
            band = np.exp(-0.5 * (np.log(f / rng.uniform(300, 1200)) / 0.6) ** 2)
            swell = 1.0 + np.sin(2 * np.pi * (rng.uniform(2, 6) * t + rng.random()))
            out[i] = irfft(rfft(out[i]) * band, n=samples) * swell
    return (0.1 * out / np.sqrt(np.mean(out**2, axis=1, keepdims=True))).astype(np.float32)
