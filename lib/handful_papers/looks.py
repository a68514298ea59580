"""How methods look in figures: one label, colour, marker and line each, the same in every figure of a paper.

Colours are Okabe and Ito's, safe for the colour-blind; markers and dashes tell methods apart in grey. Baselines are
grey. Each paper's method has one hue, its variants differ by marker and dash; extensions of ours share another.
"""

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
BLACK, GREY, PALE = "#222222", "#777777", "#9a9a9a"
REPRODUCED, EXTENSION = BLUE, RED  # the paper's method; ours


def look(label, color, marker, ls, *, zorder=2):
    """Keyword arguments for `Axes.plot` that make a method's look."""
    return dict(label=label, color=color, marker=marker, ls=ls, zorder=zorder)


class Looks(dict):
    """Method -> look, for the figures of one paper: ``METHODS = Looks(BASELINES, {"bico": look(...)})``."""

    def __init__(self, *parts):
        super().__init__()
        for part in parts:
            if taken := sorted(set(self) & set(part)):
                raise ValueError(f"{', '.join(taken)} has a look already.")
            self.update(part)

    def style(self, method, **changes):
        """The look of a method, with changes: ``ax.plot(x, y, **METHODS.style("uniform", lw=2))``."""
        if method not in self:
            raise KeyError(
                f"method {method!r} has no look; there are: {', '.join(self)}. Add it to the paper's looks.py."
            )
        return {**self[method], **changes}

    def labels(self):
        """Method -> label, for a column of names that a reader sees."""
        return {method: one["label"] for method, one in self.items()}

    def palette(self):
        """Method -> colour: seaborn's `palette`."""
        return {method: one["color"] for method, one in self.items()}

    def band(self, ax, frame, x, y, method, *, label=None, fill=True, **changes):
        """Draw the median over seeds of `y` against `x`, with a band from the lower to the upper quartile.

        Parameters
        ----------
        ax : matplotlib.axes.Axes
        frame : pandas.DataFrame, one row per (x, seed) of this method; every seed counts once
        x, y : str, columns
        label : str or None, another name than the method's
        fill : False draws the median alone

        Returns
        -------
        matplotlib.lines.Line2D : the median
        """
        quartiles = frame.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()
        one = self.style(method, **({} if label is None else {"label": label}), **changes)
        (line,) = ax.plot(quartiles.index, quartiles[0.5], **one)
        if fill:
            low, high, under = quartiles[0.25], quartiles[0.75], one["zorder"] - 1
            ax.fill_between(quartiles.index, low, high, color=one["color"], alpha=0.15, lw=0, zorder=under)
        return line


# What every paper compares with.
BASELINES = {
    "full": look("Full data", BLACK, "", "-", zorder=1.5),
    "uniform": look("Uniform", GREY, "o", ":"),
    "kmeans++": look("k-means++", GREY, "^", "--"),
    "kcenter": look("k-center", PALE, "v", "-."),
}
