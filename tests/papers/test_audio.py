"""Recordings: spectrograms, augmentations, bad ones; generated tones, and a folder of one's own."""

import warnings

import numpy as np
import pytest
from handful_papers.bico import audio
from handful_papers.bico.active_data import from_folder
from handful_papers.bico.tones import spoken_tones
from scipy.io import wavfile
from sklearn.linear_model import LogisticRegression

SECOND = np.arange(16000) / 16000


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tone(f, n=16000, rate=16000):
    return np.sin(2 * np.pi * f * np.arange(n) / rate)


def test_spectrograms_are_those_of_the_definition(rng):
    # frame by frame, with sums instead of a fast transform, at a small size
    rate, length, step, bins = 4000, 64, 32, 5
    sound = rng.normal(size=256).astype(np.float32) * 0.1
    ours = audio.mel_spectrogram(sound, rate, window=length / rate, hop=step / rate, n_bins=bins, span=200.0)
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
                expected[b, t] += power * max(0.0, min((f - low) / (mid - low), (high - f) / (high - mid)))
    expected = 10 * np.log10(expected)
    np.testing.assert_allclose(ours, expected - expected.max(), atol=1e-3)


def test_a_second_at_the_papers_values_is_32_by_32_and_a_tone_lies_at_its_frequency():
    low, high = audio.mel_spectrogram(np.stack([tone(300), tone(3000)]))
    assert low.shape == (32, 32)
    assert low.mean(axis=1).argmax() < high.mean(axis=1).argmax()
    assert low.max() == 0.0
    assert low.min() == -50.0


def test_loudness_leaves_a_spectrogram_as_it_is(rng):
    sound = rng.normal(size=(1, 16000)) * 0.1
    np.testing.assert_allclose(audio.mel_spectrogram(0.01 * sound), audio.mel_spectrogram(sound), atol=1e-2)


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
    noisy = (out[:, 0] != 0).mean()  # silence at the start stays silence without noise
    assert abs(noisy - 0.5) < 4 * np.sqrt(0.25 / 300)
    np.testing.assert_array_equal(audio.augment(sound, noise=noise, rng=rng, chance=0.0), sound)


def test_noise_is_normalised_and_its_kinds_differ(rng):
    noise = audio.background_noise(10, 16000, rng=rng)
    np.testing.assert_allclose(np.sqrt(np.mean(noise**2.0, axis=1)), 0.1, rtol=1e-4)
    high = np.abs(np.fft.rfft(noise))[:, 4000:].sum(axis=1) / np.abs(np.fft.rfft(noise)).sum(axis=1)
    assert high[0] > high[1] > high[2]  # white, pink, brown


def test_recordings_of_any_length_rate_and_type_become_one_array():
    as_int = (16000 * tone(400, 4000, 8000)).astype(np.int16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = audio.prepare([as_int, 0.5 * tone(400, 8000)], [8000, 16000])
    assert out.shape == (2, 16000)
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.abs(out).max(axis=1), [16000 / 32767, 0.5], rtol=0.05)
    assert (out[:, :3900] == 0).all()  # half a second, in the middle
    assert abs(np.abs(np.fft.rfft(out[0])).argmax() - 400) <= 2


def test_a_long_recording_keeps_its_loudest_second_and_says_so():
    sound = np.zeros(48000)
    sound[20000:36000] = 0.5 * tone(500)
    with pytest.warns(UserWarning, match="1 of 2 recordings are longer than the result"):
        out = audio.prepare([tone(300) * 0.5, sound], 16000)
    assert np.mean(out[1] ** 2) == pytest.approx(0.125, rel=1e-3)


def test_clipped_recordings_are_counted():
    with pytest.warns(UserWarning, match="1 of 2 recordings are clipped"):
        audio.prepare([0.9 * tone(300), np.clip(3 * tone(300), -1, 1)], 16000)


def test_silent_recordings_are_refused_and_audible_finds_them():
    recordings = [0.5 * tone(300), np.zeros(16000), np.full(100, 3, np.int16)]
    with pytest.raises(ValueError, match="recording 1 must be mono, finite and not silent"):
        audio.prepare(recordings, 16000)
    assert audio.audible(recordings).tolist() == [True, False, False]


@pytest.mark.parametrize("sound", [np.array([]), np.zeros((100, 2)), np.array([0.0, np.nan]), 3 * tone(300)])
def test_bad_recordings_are_named(sound):
    with pytest.raises(ValueError, match="recording 1 must"):
        audio.prepare([0.5 * tone(300), sound], 16000)


# --- data


def test_tones_are_balanced_seeded_and_can_be_learned():
    X, y = spoken_tones(200, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(X, spoken_tones(200, rng=np.random.default_rng(3))[0])
    assert X.dtype == np.int16
    assert np.bincount(y).tolist() == [20] * 10
    Z = audio.mel_spectrogram(audio.prepare(X, 8000)).reshape(200, -1)
    assert LogisticRegression(C=1e-4, max_iter=500).fit(Z[:150], y[:150]).score(Z[150:], y[150:]) > 0.5


# --- a folder of one's own recordings


@pytest.fixture
def beep():
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)


def test_files_of_any_rate_type_and_number_of_channels_are_the_same_tone(tmp_path, beep):
    high = 0.5 * np.sin(2 * np.pi * 440 * np.arange(44100) / 44100)
    (tmp_path / "deeper").mkdir()
    wavfile.write(tmp_path / "a.wav", 8000, (beep * 32767).astype(np.int16))
    wavfile.write(tmp_path / "b.WAV", 8000, beep.astype(np.float32))
    wavfile.write(tmp_path / "c.wav", 44100, (np.stack([high, high], axis=1) * 32767).astype(np.int16))
    wavfile.write(tmp_path / "deeper" / "d.wav", 8000, (128 + beep * 127).astype(np.uint8))
    wavfile.write(tmp_path / "e.wav", 8000, np.stack([128 + beep * 127] * 2, axis=1).astype(np.uint8))
    (tmp_path / "notes.txt").write_text("no recording")
    data, names = from_folder(tmp_path, ["yes", "no"], n_copies=2)
    assert [n.replace("\\", "/") for n in names] == ["a.wav", "b.WAV", "c.wav", "deeper/d.wav", "e.wav"]
    assert data.X.shape == (5, 32, 32)
    assert data.copies.shape == (5, 2, 32, 32)
    assert data.words == ("yes", "no")
    inner = data.sound[:, 1000:15000]  # away from the resampling's edges
    np.testing.assert_allclose(inner, inner[[0]].repeat(5, axis=0), atol=0.02)


def test_silent_files_are_left_out_and_named(tmp_path, beep):
    wavfile.write(tmp_path / "quiet.wav", 8000, np.zeros(8000, dtype=np.int16))
    with pytest.raises(ValueError, match=r"all 1 recordings in .* are silent"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
    wavfile.write(tmp_path / "said.wav", 8000, beep.astype(np.float32))
    with pytest.warns(UserWarning, match=r"1 of 2 recordings are silent and left out, the first is quiet\.wav"):
        _, names = from_folder(tmp_path, ["yes", "no"], n_copies=1)
    assert names == ["said.wav"]


def test_folders_without_recordings_and_files_that_are_none_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no \.wav files"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
    (tmp_path / "broken.wav").write_bytes(b"not a recording")
    with pytest.raises(ValueError, match=r"broken\.wav is no \.wav file that can be read"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
