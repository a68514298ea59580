"""Recordings: spectrograms, augmentations, bad ones; generated tones, and a folder of one's own."""

import numpy as np
import pytest
from handful_papers.bico import active_data, audio
from scipy.io import wavfile

SECOND = np.arange(16000) / 16000


def tone(f, n=16000, rate=16000):
    return np.sin(2 * np.pi * f * np.arange(n) / rate)


def test_spectrograms_are_those_of_the_definition(rng):
    # frame by frame, with sums instead of a fast transform, at a small size
    rate = 4000
    length = 64
    step = 32
    bins = 5
    sound = rng.normal(size=256).astype(np.float32) * 0.1
    ours = audio.mel_spectrogram(
        sound, rate, window=length / rate, hop=step / rate, n_bins=bins, span=200.0
    )
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 2000 / 700), bins + 2) / 2595) - 1)
    padded = np.concatenate([np.zeros(length // 2), sound, np.zeros(length)])
    expected = np.zeros((bins, 8))
    for t in range(8):
        frame = padded[t * step : t * step + length] * hann
        for k in range(length // 2 + 1):
            f = k * rate / length
            power = abs(np.sum(frame * np.exp(-2j * np.pi * k * np.arange(length) / length))) ** 2
            for b in range(bins):
                low, mid, high = edges[b : b + 3]
                expected[b, t] += power * max(
                    0.0, min((f - low) / (mid - low), (high - f) / (high - mid))
                )
    expected = 10 * np.log10(expected)
    np.testing.assert_allclose(ours, expected - expected.max(), atol=1e-3)


def test_speed_moves_frequency_and_shift_moves_time():
    fast = audio.change_speed(tone(1000).astype(np.float32), 1.25)
    spectrum = np.abs(np.fft.rfft(fast))
    assert abs(spectrum.argmax() - 1250) <= 1
    assert (fast[:1500] == 0).all()
    slow = audio.change_speed(tone(1000).astype(np.float32), 0.8)
    assert abs(np.abs(np.fft.rfft(slow)).argmax() - 800) <= 1
    x = np.arange(5, dtype=np.float32)
    assert audio.shift(x, 2).tolist() == [0, 0, 0, 1, 2]
    assert audio.shift(x, -2).tolist() == [2, 3, 4, 0, 0]
    assert audio.shift(x, 9).tolist() == [0] * 5


@pytest.mark.parametrize("snr", [0.0, 10.0, 40.0])
def test_noise_has_the_asked_for_power(snr, rng):
    sound = (0.1 * tone(500)).astype(np.float32)
    noise = audio.background_noise(1, 16000, rng=rng)[0]
    added = audio.mix_noise(sound, noise, snr).astype(float) - sound
    assert 10 * np.log10(np.mean(sound**2.0) / np.mean(added**2)) == pytest.approx(snr, abs=0.01)


def test_augmentations_are_the_papers_each_half_the_time(rng):
    sound = np.tile((0.3 * tone(500) * (np.abs(SECOND - 0.5) < 0.2)).astype(np.float32), (300, 1))
    noise = audio.background_noise(5, 16000, rng=rng)
    out = audio.augment(sound, noise=noise, rng=rng)
    assert out.shape == sound.shape
    assert np.abs(out).max() <= 1
    untouched = (out == sound).all(axis=1).mean()
    assert abs(untouched - 1 / 16) < 4 * np.sqrt(15 / 16 / 16 / 300)
    # silence at the start stays silence without noise
    noisy = (out[:, 0] != 0).mean()
    assert abs(noisy - 0.5) < 4 * np.sqrt(0.25 / 300)
    np.testing.assert_array_equal(audio.augment(sound, noise=noise, rng=rng, chance=0.0), sound)


def test_recordings_of_any_length_rate_and_type_become_one_array():
    as_int = (16000 * tone(400, 4000, 8000)).astype(np.int16)
    out = audio.prepare([as_int, 0.5 * tone(400, 8000)], [8000, 16000])
    assert out.shape == (2, 16000)
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.abs(out).max(axis=1), [16000 / 32767, 0.5], rtol=0.05)
    # half a second, in the middle
    assert (out[:, :3900] == 0).all()
    assert abs(np.abs(np.fft.rfft(out[0])).argmax() - 400) <= 2


@pytest.mark.parametrize(
    "sound", [np.array([]), np.zeros((100, 2)), np.array([0.0, np.nan]), 3 * tone(300), np.zeros(9)]
)
def test_bad_recordings_are_named(sound):
    with pytest.raises(ValueError, match="recording 1 must"):
        audio.prepare([0.5 * tone(300), sound], 16000)


def test_a_folder_of_ones_own_becomes_a_pool_and_a_bad_file_is_named(tmp_path):
    wavfile.write(
        tmp_path / "a.wav", 8000, np.stack([np.int16(9000 * tone(400, 4000, 8000))] * 2, axis=1)
    )
    wavfile.write(tmp_path / "b.wav", 16000, tone(300).astype(np.float32))
    pool, names = active_data.from_folder(tmp_path, ["yes", "no"], n_copies=2)
    assert (names, pool.X.shape, pool.copies.shape) == (
        ["a.wav", "b.wav"],
        (2, 32, 32),
        (2, 2, 32, 32),
    )
    np.testing.assert_allclose(np.abs(pool.sound).max(axis=1), [9000 / 32767, 1], rtol=0.05)
    wavfile.write(tmp_path / "c.wav", 8000, np.zeros(8000, np.int16))
    with pytest.raises(ValueError, match=r"c.wav cannot be taken \(a channel must be"):
        active_data.from_folder(tmp_path, [], n_copies=1)
