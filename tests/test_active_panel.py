"""The labelling panel, pressed by hand."""

import io
import json
import wave

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="ipywidgets comes with the extra `reproduce`")

from handful.active import ActiveLoop, LabellingPanel
from handful.active.panel import SKIP

SOUND = (0.5 * np.sin(np.arange(800)[None] * np.arange(1, 13)[:, None] / 10)).astype(np.float32)


def make(path=None, propose=None):
    propose = propose or (lambda labelled, labels, pool, n: pool[:n])
    loop = ActiveLoop(propose, n_pool=12, classes=["yes", "no"], batch_size=3, path=path)
    pictures = np.random.default_rng(0).random((12, 4, 5))
    return LabellingPanel(loop, SOUND, 8000, pictures=pictures, names=[f"<{i}>.wav" for i in range(12)])


def buttons(panel):
    return [row.children[-1] for row in panel._rows.children]


def test_a_press_is_an_answer_on_disk_and_another_corrects_it(tmp_path):
    path = tmp_path / "answers.json"
    panel = make(path)
    first, second, third = buttons(panel)
    first.value = "yes"
    assert json.loads(path.read_text())["answers"] == [[0, "yes"]]
    assert "1 of 3 answered" in panel._status.value
    first.value = "no"
    second.value = SKIP
    assert panel._more.disabled
    third.value = "yes"
    assert panel.loop.answers == {0: "no", 1: None, 2: "yes"}
    assert not panel._more.disabled
    panel._more.click()
    assert panel.loop.next() == [3, 4, 5]
    assert [b.value for b in buttons(panel)] == [None] * 3


def test_a_new_session_shows_the_batch_that_was_begun(tmp_path):
    path = tmp_path / "answers.json"
    buttons(make(path))[1].value = "no"
    panel = make(path)
    assert [b.value for b in buttons(panel)] == [None, "no", None]
    assert "1 of 3 answered" in panel._status.value


def test_the_panel_ends_with_the_pool():
    panel = make()
    for _ in range(4):
        for b in buttons(panel):
            b.value = "yes"
        panel._more.click()
    assert "Everything is answered: 12 labels" in panel._status.value
    assert panel._more.disabled


def test_a_training_that_fails_keeps_the_answers_and_can_be_tried_again():
    fails = []

    def propose(labelled, labels, pool, n):
        if len(labelled) and not fails:
            fails.append(1)
            raise RuntimeError("no luck")
        return pool[:n]

    panel = make(propose=propose)
    for b in buttons(panel):
        b.value = "no"
    with pytest.raises(RuntimeError):
        panel._next()
    assert "Training failed" in panel._status.value
    panel._next()
    assert "Batch 2: 0 of 3 answered, 3 labels" in panel._status.value


def test_what_is_shown_and_played_is_the_recording():
    row = make()._rows.children[2]
    _, name, image, player, _ = row.children
    assert name.value == "&lt;2&gt;.wav"
    assert bytes(image.value).startswith(b"\x89PNG")
    with wave.open(io.BytesIO(bytes(player.value))) as file:
        assert file.getframerate() == 8000
        played = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_allclose(played / 32767, SOUND[2], atol=1e-4)
