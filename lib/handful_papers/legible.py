"""What a reader could not read in a figure: cut, tiny or covered text, and legends that lie over data."""

from itertools import combinations, product

import numpy as np

SMALLEST = 6.0  # points at the width that the figure is printed at
_BESIDE = ((0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0))
_SLACK = 1.0  # pixels that boxes may share: they are drawn around the letters, with room to spare


def problems(fig):
    """What is wrong with a figure as it would be saved, as a list of sentences; empty where all can be read.

    Looked at are texts and legends: none may leave the canvas, be smaller than 6 points or lie over another, and none
    that stands inside axes may cover lines, marks or error bars; a legend may cover no bar or band either. Labels on
    images and on bars are taken to be meant.

    Parameters
    ----------
    fig : matplotlib Figure
    """
    fig.draw_without_rendering()
    legends = [*fig.legends, *(ax.get_legend() for ax in fig.axes if ax.get_visible())]
    legends = [one for one in legends if one is not None and one.get_visible()]
    inside = [(ax, text) for ax in fig.axes if ax.get_visible() for text in ax.texts]
    texts = [text for text in _texts(fig) if text.get_visible() and text.get_text().strip()]
    boxes = [(f"{text.get_text()!r}", _box(text)) for text in texts]
    boxes += [(f"the legend of {_names(legend)}", legend.get_window_extent()) for legend in legends]
    found = [f"{name} leaves the canvas" for name, box in boxes if not _contains(fig.bbox, box)]
    every = texts + [text for legend in legends for text in legend.get_texts()]
    small = {text.get_text(): text.get_fontsize() for text in every if text.get_fontsize() < SMALLEST}
    found += [f"{text!r} is {size:g} points high, less than {SMALLEST:g}" for text, size in small.items()]
    for (one, box), (other, beside) in combinations(boxes, 2):
        if _overlap(box, beside):
            found.append(f"{one} and {other} lie over each other")
    for legend in legends:
        box = legend.get_window_extent()
        if any(_covers(ax, box, filled=True) for ax in fig.axes if ax.get_visible()):
            found.append(f"the legend of {_names(legend)} lies over data")
    for ax, text in inside:
        if text.get_visible() and text.get_text().strip() and _covers(ax, _box(text), filled=False):
            found.append(f"{text.get_text()!r} lies over data")
    return found


def label_points(ax, points, texts, *, distances=(4, 7), **look):
    """Write a text beside each point, where it covers nothing; one that finds no such place is left out.

    Parameters
    ----------
    ax : matplotlib Axes, final in its data and limits; its figure has been drawn, so that it knows its places
    points : list of (x, y) in data coordinates
    texts : list of str
    distances : from the point, in points, tried one after another
    look : further arguments of `Axes.annotate`
    """
    taken = [_box(text) for text in _texts(ax.figure) if text.get_text().strip()]
    for point, text in zip(points, texts):
        for far, (x, y) in product(distances, _BESIDE):
            sides = dict(ha=("center", "left", "right")[x], va=("center", "bottom", "top")[y], fontsize=SMALLEST)
            note = ax.annotate(text, point, (far * x, far * y), textcoords="offset points", **sides | look)
            note.set_in_layout(False)
            box = _box(note)
            if _contains(ax.bbox, box) and not (
                _covers(ax, box, filled=False) or any(_overlap(box, other) for other in taken)
            ):
                taken.append(box)
                break
            note.remove()


def _texts(fig):
    """All texts that are drawn, but those of legends."""
    found = [*fig.texts, *(text for text in (fig._suptitle, fig._supxlabel, fig._supylabel) if text)]
    for ax in fig.axes:
        if not ax.get_visible():
            continue
        found += ax.texts
        found += [ax.title, ax._left_title, ax._right_title]
        if not ax.axison:
            continue
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_transform().transform(axis.get_view_interval()))
            room = 1e-9 * (high - low)
            found += [axis.label, axis.offsetText]
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if low - room <= axis.get_transform().transform([tick.get_loc()])[0] <= high + room:
                    found += [label for label in (tick.label1, tick.label2) if tick.get_visible()]
    return list(dict.fromkeys(found))


def _box(text):
    from matplotlib.text import Text

    text.get_window_extent()  # of an annotation: also moves it to its place
    return Text.get_window_extent(text)  # the annotation's own would take in its arrow


def _names(legend):
    return ", ".join(text.get_text() for text in legend.get_texts())


def _contains(canvas, box):
    low, high = canvas.min - _SLACK, canvas.max + _SLACK
    return bool((box.min >= low).all() and (box.max <= high).all())


def _overlap(one, other):
    shared = np.minimum(one.max, other.max) - np.maximum(one.min, other.min)
    return bool((shared > _SLACK).all())


def _covers(ax, box, *, filled):
    """Whether a box lies over what the axes draw: lines, marks, error bars and, if `filled`, also bars and bands."""
    from matplotlib.transforms import Bbox

    low, high = np.maximum(box.min, ax.bbox.min), np.minimum(box.max, ax.bbox.max)
    if (high - low <= _SLACK).any():
        return False
    box = Bbox([low, high])
    return (
        any(_line_crosses(line, box) for line in ax.lines if line.get_visible())
        or any(_collection_crosses(one, box, filled) for one in ax.collections if one.get_visible())
        or (filled and any(_patch_crosses(patch, box) for patch in ax.patches if patch.get_visible()))
    )


def _line_crosses(line, box):
    path = line.get_transform().transform_path(line.get_path())
    if line.get_linestyle() not in ("None", "none", "", " ") and path.intersects_bbox(box, filled=False):
        return True
    if line.get_marker() in ("None", "none", "", " ", None):
        return False
    return _any_inside(path.vertices, box, line.get_markersize() / 2 * line.figure.dpi / 72)


def _collection_crosses(one, box, filled):
    solid = bool(len(one.get_facecolor()) and one.get_facecolor()[:, 3].any())
    offsets = np.ma.filled(np.ma.asarray(one.get_offsets(), dtype=float), np.nan)
    if offsets.any():  # marks
        sizes = one.get_sizes() if hasattr(one, "get_sizes") and len(one.get_sizes()) else np.array([36.0])
        radius = np.sqrt(sizes.max()) / 2 * one.figure.dpi / 72
        return _any_inside(one.get_offset_transform().transform(offsets), box, radius)
    if solid and (one.get_array() is not None or not filled):
        return False  # a map of colours, such as filled contours; or a band
    paths = (one.get_transform().transform_path(path) for path in one.get_paths())
    return any(len(path.vertices) and path.intersects_bbox(box, filled=solid) for path in paths)


def _patch_crosses(patch, box):
    return patch.get_transform().transform_path(patch.get_path()).intersects_bbox(box, filled=True)


def _any_inside(points, box, radius):
    points = np.asarray(points, dtype=float)
    return bool(((points > box.min - radius) & (points < box.max + radius)).all(axis=1).any())
