"""A folder of one's own recordings as a pool."""

import numpy as np
import pytest
from handful_papers.bico.active_data import from_folder
from scipy.io import wavfile


@pytest.fixture
def tone():
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)


def test_files_of_any_rate_type_and_number_of_channels_are_the_same_tone(tmp_path, tone):
    high = 0.5 * np.sin(2 * np.pi * 440 * np.arange(44100) / 44100)
    (tmp_path / "deeper").mkdir()
    wavfile.write(tmp_path / "a.wav", 8000, (tone * 32767).astype(np.int16))
    wavfile.write(tmp_path / "b.WAV", 8000, tone.astype(np.float32))
    wavfile.write(tmp_path / "c.wav", 44100, (np.stack([high, high], axis=1) * 32767).astype(np.int16))
    wavfile.write(tmp_path / "deeper" / "d.wav", 8000, (128 + tone * 127).astype(np.uint8))
    wavfile.write(tmp_path / "e.wav", 8000, np.stack([128 + tone * 127] * 2, axis=1).astype(np.uint8))
    (tmp_path / "notes.txt").write_text("no recording")
    data, names = from_folder(tmp_path, ["yes", "no"], n_copies=2)
    assert [n.replace("\\", "/") for n in names] == ["a.wav", "b.WAV", "c.wav", "deeper/d.wav", "e.wav"]
    assert data.X.shape == (5, 32, 32)
    assert data.copies.shape == (5, 2, 32, 32)
    assert data.words == ("yes", "no")
    inner = data.sound[:, 1000:15000]  # away from the resampling's edges
    np.testing.assert_allclose(inner, inner[[0]].repeat(5, axis=0), atol=0.02)


def test_silent_files_are_left_out_and_named(tmp_path, tone):
    wavfile.write(tmp_path / "quiet.wav", 8000, np.zeros(8000, dtype=np.int16))
    with pytest.raises(ValueError, match=r"all 1 recordings in .* are silent"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
    wavfile.write(tmp_path / "said.wav", 8000, tone.astype(np.float32))
    with pytest.warns(UserWarning, match=r"1 of 2 recordings are silent and left out, the first is quiet\.wav"):
        _, names = from_folder(tmp_path, ["yes", "no"], n_copies=1)
    assert names == ["said.wav"]


def test_folders_without_recordings_and_files_that_are_none_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no \.wav files"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
    (tmp_path / "broken.wav").write_bytes(b"not a recording")
    with pytest.raises(ValueError, match=r"broken\.wav is no \.wav file that can be read"):
        from_folder(tmp_path, ["yes", "no"], n_copies=1)
