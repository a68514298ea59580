"""How Figure 11 is drawn, and which numbers decide its claims."""

import numpy as np

from handful_papers import style

# More points than that lie on one another.
MOST_POINTS = 600


def draw_plane(plane, truth, guess, chosen, labelled):
    """The pool in two dimensions: points coloured by predicted class, hollow where it is wrong.

    Points that were selected hold their true class; those that are labelled are triangles.

    Parameters
    ----------
    plane : array of shape (n, 2)
    truth, guess : int arrays of shape (n,); classes 0 to 9
    chosen, labelled : int arrays, rows

    Returns
    -------
    matplotlib Figure
    """
    import matplotlib.pyplot as plt

    fig, ax = style.figure("double", ratio=0.8)
    colors = np.array(plt.get_cmap("tab10").colors)
    drawn = np.random.default_rng(0).permutation(len(plane))[:MOST_POINTS]
    by_guess = colors[guess]
    is_right = truth == guess
    right = drawn[is_right[drawn]]
    wrong = drawn[~is_right[drawn]]
    ax.scatter(*plane[right].T, s=14, color=by_guess[right])
    ax.scatter(
        *plane[wrong].T,
        s=14,
        facecolors="none",
        edgecolors=by_guess[wrong],
        linewidths=0.9,
    )
    _draw_selected(ax, plane[chosen], truth[chosen], by_guess[chosen])
    ax.plot(
        *plane[labelled].T,
        "^",
        ms=7,
        color=style.BLACK,
        mec="white",
        mew=0.6,
        zorder=3,
    )
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    fig.legend(handles=_key(colors), loc="outside lower center", ncols=5)
    return fig


def _draw_selected(ax, places, truth, colors):
    for place, number, color in zip(places, truth, colors):
        ax.plot(
            *place,
            "o",
            ms=13,
            mfc=color,
            mec=style.BLACK,
            mew=2.2,
            zorder=4,
        )
        ax.annotate(
            str(number),
            place,
            ha="center",
            va="center_baseline",
            color="white",
            weight="bold",
            fontsize=8,
            zorder=5,
        )


def _key(colors):
    """What stands in the legend: a colour for each predicted class, and the marks."""
    from matplotlib.lines import Line2D

    dot = {"ls": "", "marker": "o", "ms": 4}
    lines = [
        Line2D([], [], color=color, label=f"predicted {k}", **dot) for k, color in enumerate(colors)
    ]
    marks = {
        "wrongly predicted": dot | {"color": style.GREY, "mfc": "none"},
        "selected by BiCo": dot | {"mfc": style.PALE, "mec": style.BLACK, "ms": 8, "mew": 2},
        "labelled": dot | {"color": style.BLACK, "marker": "^", "ms": 6},
    }
    return lines + [Line2D([], [], label=label, **look) for label, look in marks.items()]


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data=run.parameters["dataset"])
    batch = run.rows[run.rows.method == "bico"]
    mistakes = (batch.mistakes - batch.pool_mistakes).to_numpy()
    return {"bico-fig11-mistakes": mistakes, "bico-fig11-diverse": batch.spread.to_numpy()}
