"""The chart of dattri's two tables: linear datamodeling scores of ours beside those published."""

from handful_papers import style

OURS = {
    "color": style.EXTENSION,
    "marker": "D",
    "ls": "",
}
OTHERS = {
    "color": style.GREY,
    "marker": "o",
    "ls": "",
}


def draw_scores(scores, ceiling, ours, published, dataset):
    """A row for each method: every score as a small mark and their mean as a large one; beside
    them the published scores.

    Parameters
    ----------
    scores : pandas.Series of float, one a truth, by label of the method, from top to bottom
    ceiling : float, the most that two independent truths allow
    ours : set of str, labels of our extensions
    published : pandas.Series of float by method, from top to bottom
    dataset : str, what was scored here

    Returns
    -------
    matplotlib Figure
    """
    labels = list(scores.index.unique())
    fig, (left, right) = style.figure("double", 0.7, ncols=2)
    for place, label in enumerate(labels):
        values = scores[scores.index == label]
        look = OURS if label in ours else OTHERS
        left.plot(
            values,
            [place] * len(values),
            "o",
            color=look["color"],
            alpha=0.5,
            ms=3,
        )
        left.plot(
            values.mean(),
            place,
            ms=6,
            **look,
        )
    left.axvline(
        ceiling,
        color=style.BLACK,
        lw=0.8,
        label="ceiling",
    )
    left.plot([], [], label="other scores", **OTHERS)
    left.plot([], [], label="ours (extension)", **OURS)
    right.plot(
        published,
        range(len(published)),
        "x",
        color=style.BLACK,
        label="published",
    )
    left.set_title(f"here, {dataset}")
    right.set_title("published, MNIST")
    for ax, names in ((left, labels), (right, list(published.index))):
        ax.set_yticks(range(len(names)), names)
        ax.set(xlim=(-0.1, 1), xlabel="linear datamodeling score")
        ax.invert_yaxis()
    style.legend_below(fig, ncols=4)
    return fig
