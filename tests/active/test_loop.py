"""The loop, its file of answers, and the labelling panel, pressed by hand."""

import io
import json
import subprocess
import sys
import warnings
import wave
from functools import partial

import numpy as np
import pytest
from handful.active import ActiveLoop, KCenterQuery, LabellingPanel
from handful.active.panel import SKIP

DAYS = np.array(["2026-01-01", "2026-01-02"], "M8[D]")


def in_order(labelled, labels, pool, n):
    return pool[:n]


def test_every_answer_is_on_disk_before_the_next_and_a_new_loop_goes_on_there(tmp_path):
    path = tmp_path / "answers" / "mine.json"
    loop = ActiveLoop(in_order, n_pool=20, classes=["a", "b"], batch_size=4, path=path)
    assert loop.next() == [0, 1, 2, 3]
    for i in (0, 1):
        loop.label(i, "a")
        assert json.loads(path.read_text())["answers"][-1] == [i, "a"]
    resumed = ActiveLoop(
        lambda *_: pytest.fail("asked again"),
        n_pool=20,
        classes=["a", "b"],
        batch_size=4,
        path=path,
    )
    # the batch that was begun
    assert resumed.next() == [2, 3]
    resumed.label(2, None)
    resumed.label(3, "b")
    # a correction
    resumed.label(0, "b")
    resumed = ActiveLoop(in_order, n_pool=20, classes=["a", "b"], batch_size=4, path=path)
    assert resumed.labelled.tolist() == [0, 1, 3]
    assert resumed.labels.tolist() == ["b", "a", "b"]
    assert resumed.skipped.tolist() == [2]
    assert resumed.rounds == [[0, 1, 2, 3]]


def test_the_loop_ends_with_the_pool():
    loop = ActiveLoop(in_order, n_pool=7, classes=[0, 1], batch_size=3)
    loop.run(lambda i: i % 2, n_rounds=9)
    assert [len(r) for r in loop.rounds] == [3, 3, 1]
    assert loop.next() == []


PROPOSALS = (
    [0, 0, 1],
    [0, 1],
    [0, 1, 20],
    [0, 1, 2],
    None,
    [0.5, 1, 3],
    ["a", "b", "c"],
    [[0], [1], [3]],
)


@pytest.mark.parametrize("bad", [lambda *_, p=p: p for p in PROPOSALS])
def test_proposals_that_cannot_be_labelled_are_refused(bad):
    loop = ActiveLoop(bad, n_pool=20, classes=[0, 1], batch_size=3)
    loop.label(2, 1)
    with pytest.raises(ValueError, match="propose must give 3 different points"):
        loop.next()


@pytest.mark.parametrize(("proposal", "may_be_places"), [([0, 1, 2], True), ([0, 1, 19], False)])
def test_places_within_the_pool_are_told_from_points_where_they_cannot_be_points(
    proposal, may_be_places
):
    loop = ActiveLoop(lambda *_: np.array(proposal), n_pool=20, classes=[0, 1], batch_size=3)
    loop.label(1, 1)
    with pytest.raises(ValueError, match="propose must give 3") as caught:
        loop.next()
    assert ("pool[chosen]" in str(caught.value)) == may_be_places


def test_an_acquisition_function_alone_proposes_nothing():
    with pytest.raises(TypeError, match=r"got KCenterQuery\(\); .* returns pool\[chosen\]"):
        ActiveLoop(KCenterQuery(), n_pool=20, classes=[0, 1])


def test_answers_of_another_pool_and_broken_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    ActiveLoop(in_order, n_pool=20, classes=[0, 1], path=path).next()
    with pytest.raises(ValueError, match="belongs to another pool: its n_pool is 20"):
        ActiveLoop(in_order, n_pool=21, classes=[0, 1], path=path)
    with pytest.raises(ValueError, match="its classes is"):
        ActiveLoop(in_order, n_pool=20, classes=[0, 2], path=path)


def test_labels_and_points_that_are_none_are_refused():
    loop = ActiveLoop(in_order, n_pool=20, classes=["a", "b"])
    with pytest.raises(ValueError, match="label must be one of"):
        loop.label(0, "c")
    with pytest.raises(ValueError, match="index must be an integer of at least 0 and at most 19"):
        loop.label(20, "a")
    with pytest.raises(ValueError, match="index must be an integer"):
        loop.label(2.7, "a")
    for changes in (
        dict(n_pool=0),
        dict(batch_size=21),
        dict(classes=["a"]),
        dict(classes=["a", "a"]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
            ActiveLoop(in_order, **{"n_pool": 20, "classes": ["a", "b"], **changes})


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 5]),
        np.array([False, True]),
        np.array(["a", "b"]),
        range(2),
        [0.0, np.nan],
        DAYS,
    ],
)
def test_classes_of_any_kind_are_saved_and_read_back(classes, tmp_path):
    make = partial(
        ActiveLoop, in_order, n_pool=20, classes=classes, batch_size=3, path=tmp_path / "a.json"
    )
    make().run(lambda i: classes[i % 2], n_rounds=1)
    np.testing.assert_array_equal(make().labels, np.asarray(classes)[[0, 1, 0]])


@pytest.mark.parametrize("classes", [[0, "a"], [0, False], [1, 1.0], [[1], [2]]])
def test_classes_that_are_no_different_labels_of_one_kind_are_refused(classes):
    with pytest.raises(
        ValueError, match="classes must be at least 2 different labels, all words or none"
    ):
        ActiveLoop(in_order, n_pool=20, classes=classes, batch_size=3)


@pytest.mark.parametrize("classes", [[None, 1, 2], [0, None], np.array([None, 1], dtype=object)])
def test_none_is_no_class_as_it_skips_a_point(classes):
    with pytest.raises(ValueError, match="classes must not hold None, which is the answer that"):
        ActiveLoop(in_order, n_pool=20, classes=classes)


HEAD = b'{"version": 1, "n_pool": 20, "classes": [0, 1], '
DAMAGED = [
    b"{",
    b"\xff\xfe",
    b"[1]",
    b"null",
    HEAD + b'"answers": [[0, 1]], "pending": []}',
    HEAD + b'"answers": 3, "pending": [], "rounds": []}',
    HEAD + b'"answers": [[99, 1]], "pending": [], "rounds": []}',
    HEAD + b'"answers": [[1, 7]], "pending": [], "rounds": []}',
    HEAD + b'"answers": [[1, true]], "pending": [], "rounds": []}',
    HEAD + b'"answers": [["1", 1]], "pending": [], "rounds": []}',
    HEAD + b'"answers": [[1, 1]], "pending": [1], "rounds": [[1]]}',
    HEAD + b'"answers": [], "pending": null, "rounds": null}',
    HEAD + b'"answers": [], "pending": [20], "rounds": [[20]]}',
    HEAD + b'"answers": [], "pending": [], "rounds": [3]}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_of_answers_is_refused_by_name_and_left_alone(content, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"{path} holds no answers of an ActiveLoop .*: move it away"
    ):
        ActiveLoop(in_order, n_pool=20, classes=[0, 1], path=path)
    assert path.read_bytes() == content


def test_a_folder_for_a_file_of_answers_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="holds no answers of an ActiveLoop"):
        ActiveLoop(in_order, n_pool=20, classes=[0, 1], path=tmp_path)


# --- one file, several sessions


def of_digits(path, propose=in_order, **options):
    return ActiveLoop(
        propose, **{"n_pool": 400, "classes": range(10), "batch_size": 4, "path": path} | options
    )


def test_what_one_session_writes_is_there_after_another_one_has_written(tmp_path):
    path = tmp_path / "a.json"
    one = of_digits(path)
    other = of_digits(path)
    assert one.next() == other.next() == [0, 1, 2, 3]
    one.label(0, 7)
    other.label(1, 8)
    one.label(2, None)
    assert other.next() == one.next() == [3]
    assert one.answers == other.answers == of_digits(path).answers == {0: 7, 1: 8, 2: None}
    other.label(3, 1)
    assert one.next() == other.next() == [4, 5, 6, 7]
    assert of_digits(path).rounds == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_batch_that_another_session_begins_during_the_training_is_the_batch_of_both(tmp_path):
    other = of_digits(tmp_path / "a.json", lambda labelled, labels, pool, n: pool[-n:])

    def slow(labelled, labels, pool, n):
        other.label(5, 1)
        assert other.next() == [396, 397, 398, 399]
        return pool[:n]

    one = of_digits(tmp_path / "a.json", slow)
    assert one.next() == [396, 397, 398, 399]
    assert one.rounds == [[396, 397, 398, 399]]
    assert one.answers == {5: 1}


def test_points_that_are_answered_during_the_training_are_not_asked_for(tmp_path):
    other = of_digits(tmp_path / "a.json")

    def slow(labelled, labels, pool, n):
        other.label(1, 1)
        return pool[:n]

    assert of_digits(tmp_path / "a.json", slow).next() == [0, 2, 3]


def test_of_two_answers_to_one_point_the_later_one_stays_and_a_warning_says_so(tmp_path):
    one = of_digits(tmp_path / "a.json")
    other = of_digits(tmp_path / "a.json")
    one.label(0, 7)
    with pytest.warns(
        UserWarning, match="point 0 was answered by another session, 7; the later answer stays, 8"
    ):
        other.label(0, 8)
    with warnings.catch_warnings(action="error"):
        # its own correction
        other.label(0, 9)
        one.label(1, 1)
        one.label(0, 9)
    assert of_digits(tmp_path / "a.json").answers == {0: 9, 1: 1}


PROCESS = """
import sys
from handful.active import ActiveLoop
path, first, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
loop = ActiveLoop(
    lambda labelled, labels, pool, n: pool[:n],
    n_pool=400,
    classes=range(10),
    batch_size=4,
    path=path,
)
for i in range(first, 400, step):
    loop.label(i, i % 10)
    print(i, flush=True)
"""


def start(*arguments):
    command = [sys.executable, "-c", PROCESS, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_the_answers_of_two_processes_survive(tmp_path):
    path = tmp_path / "a.json"
    processes = [start(path, first, 2) for first in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    for process in processes:
        process.stdout.close()
    assert of_digits(path).answers == {i: i % 10 for i in range(400)}


def test_a_process_that_is_killed_loses_no_answer_that_was_given(tmp_path):
    path = tmp_path / "a.json"
    process = start(path, 0, 1)
    given = [int(process.stdout.readline()) for _ in range(20)]
    process.kill()
    given += [int(line) for line in process.stdout if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    loop = of_digits(path)
    assert set(given) <= set(loop.answers)
    assert len(loop.answers) <= len(given) + 1
    # no lock is left
    loop.label(399, 9)
    assert of_digits(path).answers[399] == 9


# --- the panel

pytest.importorskip("ipywidgets", reason="ipywidgets comes with the extra `reproduce`")

SOUND = (0.5 * np.sin(np.arange(800)[None] * np.arange(1, 13)[:, None] / 10)).astype(np.float32)


def make(path=None, propose=None):
    propose = propose or (lambda labelled, labels, pool, n: pool[:n])
    loop = ActiveLoop(propose, n_pool=12, classes=["yes", "no"], batch_size=3, path=path)
    pictures = np.random.default_rng(0).random((12, 4, 5))
    return LabellingPanel(
        loop, SOUND, 8000, pictures=pictures, names=[f"<{i}>.wav" for i in range(12)]
    )


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


def test_two_panels_of_one_file_show_the_answers_of_both(tmp_path):
    one = make(tmp_path / "a.json")
    other = make(tmp_path / "a.json")
    buttons(one)[0].value = "yes"
    buttons(other)[1].value = "no"
    assert "2 of 3 answered" in other._status.value
    assert [row.children[0].value for row in other._rows.children] == list("✓✓·")
    buttons(other)[2].value = "no"
    other._more.click()
    buttons(other)[0].value = "yes"
    assert "1 of 3 answered" in other._status.value
    one._next()
    assert one.loop.answers == {0: "yes", 1: "no", 2: "no", 3: "yes"}
    assert [b.value for b in buttons(one)] == ["yes", None, None]


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


def test_a_class_may_be_called_skip():
    loop = ActiveLoop(in_order, n_pool=12, classes=["skip", "(skip)"], batch_size=3)
    for button, value in zip(buttons(LabellingPanel(loop, SOUND, 8000)), ("skip", "(skip)", SKIP)):
        button.value = value
    assert loop.answers == {0: "skip", 1: "(skip)", 2: None}


def test_a_class_that_equals_nothing_has_a_button(tmp_path):
    def panel():
        loop = ActiveLoop(
            in_order, n_pool=12, classes=[0.0, np.nan], batch_size=3, path=tmp_path / "a.json"
        )
        return LabellingPanel(loop, SOUND, 8000)

    first, second, _ = buttons(panel())
    # as pressed
    first.index = 1
    second.index = 0
    second.index = 1
    again = panel()
    np.testing.assert_array_equal(again.loop.labels, [np.nan, np.nan])
    assert [b.index for b in buttons(again)] == [1, 1, None]
    buttons(again)[0].index = 0
    assert again.loop.answers[0] == 0.0


def played_of(sound):
    loop = ActiveLoop(in_order, n_pool=12, classes=[0, 1], batch_size=3)
    player = LabellingPanel(loop, sound, 8000)._rows.children[2].children[-2]
    with wave.open(io.BytesIO(bytes(player.value))) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_integers_of_16_bits_are_played_and_larger_ones_are_told(dtype):
    sound = np.round(32767 * SOUND).astype(dtype)
    np.testing.assert_array_equal(played_of(sound), sound[2])
    if dtype != np.int16:
        with pytest.raises(ValueError, match=r"integers of 16 bits, got int.*divide it by its"):
            played_of(sound * 65536)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (dict(sound=SOUND[:5]), "sound"),
        (dict(sound=list(SOUND[:11])), "sound"),
        (dict(names=["a.wav"]), "names"),
        (dict(pictures=np.zeros((4, 2, 2))), "pictures"),
    ],
)
def test_fewer_recordings_than_points_are_told(given, name):
    loop = ActiveLoop(in_order, n_pool=12, classes=[0, 1], batch_size=3)
    with pytest.raises(ValueError, match=f"{name} must have one for each of the 12 points"):
        LabellingPanel(loop, **{"sound": SOUND, "sampling_rate": 8000} | given)
    assert loop.rounds == []


@pytest.mark.parametrize("classes", [[0, 1], [0.0, 1.0], [False, True]])
@pytest.mark.parametrize("answer", [1, 1.0, True, np.float64(1), np.True_, np.int8(1)])
def test_an_answer_that_equals_a_class_is_that_class(classes, answer):
    loop = ActiveLoop(in_order, n_pool=7, classes=classes, batch_size=3)
    [first, *_] = loop.next()
    loop.label(first, answer)
    assert type(loop.answers[first]) is type(classes[1])
    for wrong in (2, "1", 0.5):
        with pytest.raises(ValueError, match="label must be one of"):
            loop.label(first, wrong)
