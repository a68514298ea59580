"""`LabellingPanel`: shows and plays the recordings that an `ActiveLoop` asks for, and takes the
labels."""

import io
from html import escape

import numpy as np
from scipy.io import wavfile

from handful.options import explained
from handful.tables import n_rows_of

# without and with an answer
TICKS = "·✓"
# no class equals it, whatever classes are called
SKIP = object()
# of the integers that a player takes
LOUDEST = np.iinfo(np.int16)


class LabellingPanel:
    """Widgets for JupyterLab in which a person labels the batches of an `ActiveLoop`.

    Each recording has a row with its picture, a player, a button for every class and one to skip
    it. Pressing a button gives the answer to the loop, which saves it; pressing another one
    corrects it. When all recordings have an answer, a further button trains and asks for the next
    batch.

    Parameters
    ----------
    loop : ActiveLoop
        The loop whose questions it asks.
    sound : array of shape (n, samples), or list of arrays
        The sounds, as floats between -1 and 1 or 16-bit integers.
    sampling_rate : int
        Samples a second.
    pictures : array of shape (n, height, width) or None, default=None
        Such as spectrograms; None shows none.
    names : list of str or None, default=None
        What the points are called, such as the names of the files; None shows numbers.

    Attributes
    ----------
    widget : ipywidgets.VBox, which JupyterLab shows

    Raises
    ------
    ValueError
        for fewer sounds, pictures or names than the pool has points, and for integers beyond 16
        bits
    """

    @explained
    def __init__(self, loop, sound, sampling_rate, *, pictures=None, names=None):
        try:
            import ipywidgets
        except ImportError as error:
            raise ImportError(
                "the labelling panel needs ipywidgets: pip install ipywidgets."
            ) from error
        _check_each_point(loop.n_pool, sound=sound, pictures=pictures, names=names)
        self._widgets = ipywidgets
        self.loop = loop
        self._sound = sound
        self._sampling_rate = sampling_rate
        self._pictures = pictures
        self._names = names
        self._status = ipywidgets.HTML()
        self._rows = ipywidgets.VBox()
        self._more = ipywidgets.Button(description="Train, then ask for more", icon="forward")
        self._more.layout.width = "auto"
        self._more.on_click(lambda _: self._next())
        self.widget = ipywidgets.VBox([self._status, self._rows, self._more])
        self._batch = []
        self._next()

    def _repr_mimebundle_(self, **kwargs):
        return self.widget._repr_mimebundle_(**kwargs)

    def _next(self):
        self._more.disabled = True
        self._say("Training …")
        try:
            pending = self.loop.next()
        except Exception:
            self._say("Training failed; the answers so far are kept.")
            self._more.disabled = False
            raise
        # Answers that an earlier session gave to this batch stay in sight, so that they can be
        # corrected.
        self._batch = list(self.loop.rounds[-1]) if pending else []
        self._ticks = {}
        self._rows.children = [self._row(i) for i in self._batch]
        self._report()

    def _row(self, index):
        w = self._widgets
        answered = index in self.loop.answers
        answer = self.loop.answers.get(index)
        buttons = w.ToggleButtons(
            options=[*((str(c), c) for c in self.loop.classes), ("(skip)", SKIP)],
            value=(SKIP if answer is None else answer) if answered else None,
            style={"button_width": "auto"},
            # NaN is a class, too
            equals=lambda one, other: one is other or one == other,
        )
        tick = self._ticks[index] = w.HTML(TICKS[answered], layout={"width": "1.5em"})

        def press(change):
            self.loop.label(index, None if change["new"] is SKIP else change["new"])
            self._report()

        buttons.observe(press, names="value")
        name = str(index) if self._names is None else str(self._names[index])
        shown = [tick, w.HTML(escape(name), layout={"width": "10em"})]
        if self._pictures is not None:
            picture = w.Image(value=_png(self._pictures[index]), format="png")
            picture.layout.width = "96px"
            picture.layout.height = "64px"
            picture.layout.object_fit = "fill"
            shown.append(picture)
        sound = _wav(self._sound[index], self._sampling_rate)
        player = w.Audio(
            value=sound, format="wav", autoplay=False, loop=False, layout={"width": "230px"}
        )
        return w.HBox([*shown, player, buttons], layout={"align_items": "center"})

    def _report(self):
        # Another session may have answered some of the batch, or begun the next one.
        for index, tick in self._ticks.items():
            tick.value = TICKS[index in self.loop.answers]
        left = sum(index not in self.loop.answers for index in self._batch)
        n = len(self._batch)
        total = len(self.loop.labelled)
        saved = "" if self.loop.path is None else f" Saved in {escape(str(self.loop.path))}."
        if not self._batch:
            self._say(f"Everything is answered: {total} labels.{saved}")
        else:
            self._say(
                f"Batch {len(self.loop.rounds)}: {n - left} of {n} answered, {total} labels in "
                f"all.{saved}"
            )
        self._more.disabled = left > 0 or not self._batch

    def _say(self, text):
        self._status.value = f"<b>{text}</b>"


def _check_each_point(n_pool, **given):
    """ValueError where something is given for fewer points than the pool has."""
    for name, values in given.items():
        n = n_pool if values is None else n_rows_of(values)
        if n is not None and n < n_pool:
            raise ValueError(
                f"{name} must have one for each of the {n_pool} points of the pool, got {n}."
            )


def _wav(sound, sampling_rate):
    sound = np.asarray(sound)
    lowest = sound.min(initial=0)
    highest = sound.max(initial=0)
    if sound.dtype.kind in "iu" and (lowest < LOUDEST.min or highest > LOUDEST.max):
        raise ValueError(
            f"sound must hold floats between -1 and 1 or integers of 16 bits, got {sound.dtype} "
            f"from {lowest} to {highest}: divide it by its largest number."
        )
    if sound.dtype.kind == "f":
        sound = np.round(np.clip(sound, -1, 1) * 32767)
    buffer = io.BytesIO()
    wavfile.write(buffer, int(sampling_rate), sound.astype(np.int16))
    return buffer.getvalue()


def _png(picture):
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, np.asarray(picture, dtype=float), cmap="magma", origin="lower", format="png")
    return buffer.getvalue()
