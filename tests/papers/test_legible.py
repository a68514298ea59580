"""What cannot be read in a figure is found, and what can be is not."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from handful_papers import style
from handful_papers.legible import label_points, problems


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


@pytest.fixture
def drawn():
    fig, ax = style.figure()
    ax.plot([0, 1, 2], [0, 1, 2], marker="o", label="a line")
    ax.set(title="a title", xlabel="x", ylabel="y")
    return fig, ax


def test_a_plain_figure_has_no_problems(drawn):
    fig, _ = drawn
    fig.legend(loc="outside lower center")
    assert problems(fig) == []


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda fig, ax: ax.legend(loc="lower left"), ["the legend of a line lies over data"]),
        (lambda fig, ax: ax.text(1, 1, "here", ha="center"), ["'here' lies over data"]),
        (lambda fig, ax: ax.set_title("a title " * 20), ["leaves the canvas"]),
        (lambda fig, ax: ax.set_xlabel("tiny", fontsize=5.9), ["'tiny' is 5.9 points high, less than 6"]),
        (lambda fig, ax: ax.set_xticks([1, 1.02], ["one", "two"]), ["'one' and 'two' lie over each other"]),
        (lambda fig, ax: fig.text(0.55, 0.94, "above"), ["'above' and 'a title' lie over each other"]),
    ],
)
def test_what_cannot_be_read_is_told(drawn, spoil, found):
    spoil(*drawn)
    told = problems(drawn[0])
    assert len(told) == len(found)
    assert all(part in sentence for part, sentence in zip(found, told))


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: ax.bar([0, 1, 2], [1, 1, 1]),
        lambda ax: ax.fill_between([0, 2], 0, 1),
        lambda ax: ax.scatter([1.0], [0.5], s=400),
        lambda ax: ax.errorbar([1.0], [0.5], yerr=0.4, fmt="none"),
        lambda ax: ax.axhline(0.4),
        lambda ax: ax.contour(np.add.outer(np.arange(3.0), np.arange(3.0)), levels=5),
    ],
)
def test_a_legend_over_whatever_is_drawn_is_told_and_beside_it_is_not(draw):
    fig, ax = style.figure()
    draw(ax)
    ax.set(xlim=(-0.5, 6), ylim=(0, 2))
    ax.plot([], [], color="black", label="a line")
    ax.legend(loc="upper right")
    assert problems(fig) == []
    ax.legend(loc=(0.1, 0.15))  # as a share of the axes
    assert problems(fig) == ["the legend of a line lies over data"]


def test_labels_on_bars_and_images_and_ticks_that_are_not_drawn_are_left_alone():
    fig, ax = style.figure()
    ax.bar([0, 1], [1, 2])
    ax.text(0, 0.5, "one", ha="center")
    ax.set_xticks([0, 0.001, 1], ["zero", "", "far"])
    ax.set_xticks([50], ["beyond"], minor=True)
    ax.set_xlim(-1, 2)
    assert problems(fig) == []
    fig, ax = style.figure()
    ax.imshow(np.arange(4).reshape(2, 2))
    ax.text(0, 0, "0")
    assert problems(fig) == []


def test_points_are_labelled_where_nothing_is_covered_or_not_at_all(drawn):
    fig, ax = drawn
    fig.draw_without_rendering()
    label_points(ax, [(0, 0), (1, 1), (2, 2)], ["2", "3", "4"])
    assert [text.get_text() for text in ax.texts] == ["2", "3", "4"]
    assert problems(fig) == []
    fig, ax = style.figure()
    ax.plot(*np.random.default_rng(0).random((2, 3000)), "o")
    fig.draw_without_rendering()
    label_points(ax, [(0.5, 0.5)], ["hidden"])
    assert len(ax.texts) == 0
