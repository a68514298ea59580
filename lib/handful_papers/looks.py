"""How methods look in figures: one label, colour, marker and line each, the same in every figure of a paper.

Colours are Okabe and Ito's, safe for the colour-blind; markers and dashes tell methods apart in grey. Baselines are
grey. Each paper's method has one hue, its variants differ by shade, marker and dash; extensions of ours share another.
"""

from handful_papers.style import WIDTHS, use_style

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
BLACK, GREY, PALE = "#222222", "#777777", "#9a9a9a"
REPRODUCED, EXTENSION = BLUE, RED  # the paper's method; ours
LIGHT, DARK = "#6aaed6", "#00395c"  # shades of the paper's method, where a figure has many of its variants
SPARSE = (0, (3, 1, 1, 1, 1, 1))  # a dash and two dots
# What seaborn takes in place of matplotlib's names: lengths of dashes and gaps.
_DASHES = {"-": "", ":": (1, 1.65), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1, 1.6), SPARSE: SPARSE[1]}


# What figures call data sets that the registry has under a key.
DATA_NAMES = {
    "birch_5x5": "BIRCH",
    "breast_cancer": "Breast cancer",
    "cifar10": "CIFAR-10",
    "cifar10_full": "CIFAR-10",
    "cod_rna": "cod-rna",
    "covtype": "Covertype",
    "covtype_subset": "Covertype, 16 %",
    "colour_patches": "colour patches",
    "credit_default": "Credit",
    "digits": "Digits",
    "fsdd": "Spoken Digits",
    "gaussian_mixture": "Gaussian mixture",
    "grey_patches": "grey patches",
    "mnist": "MNIST",
    "pathological": "Pathological",
    "sample_patches": "image patches",
    "skin_nonskin": "Skin",
    "spoken_tones": "spoken tones",
    "susy_subset": "SUSY",
    "w8a": "W8a",
}


def data_name(key):
    """What a figure calls a data set: "cod-rna" for "cod_rna"; a name that is no key of the registry stays."""
    return DATA_NAMES.get(key, key)


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

    def facets(
        self, rows, x, y, panel, methods, *, labels, titles=None, ncols=None, ratio=0.75, width="double", level=None
    ):
        """A panel for each value of a column, in it the median over seeds of each method with a band of quartiles.

        Parameters
        ----------
        rows : pandas.DataFrame, one row per (panel, method, x, seed); every seed counts once
        x, y, panel : str, columns
        methods : list of str, in the order of the legend; the last is drawn on top
        labels : (str, str), of the axes
        titles : dict, value of `panel` -> title; default: its name, if it is a data set, else the value
        ncols : int, panels side by side
        ratio, width : see `style.figure`
        level : str or None, a method whose mean is drawn as a line across each panel

        Returns
        -------
        fig : matplotlib Figure, its legend below the panels
        axes : dict, value of `panel` -> its Axes
        """
        import seaborn as sns

        use_style()
        values = list(rows[panel].unique())
        ncols = min(ncols or len(values), len(values))
        side = WIDTHS.get(width, width) / ncols
        marks = {method: self.style(method)["marker"] for method in methods}
        dashes = {method: _DASHES[self[method]["ls"]] for method in methods}
        options = dict(x=x, y=y, col=panel, col_order=values, col_wrap=ncols, hue="method", style="method")
        options |= dict(hue_order=methods, style_order=methods, palette=self.palette(), markers=marks, dashes=dashes)
        options |= dict(estimator="median", errorbar=("pi", 50), err_kws=dict(alpha=0.15, lw=0), legend=False)
        options |= dict(markeredgecolor="auto", markeredgewidth=1, facet_kws=dict(sharex=False, sharey=False))
        shown = rows[rows.method.isin(methods)]
        grid = sns.relplot(shown, kind="line", height=side * ratio, aspect=1 / ratio, **options)
        fig = grid.figure
        fig.set_size_inches(WIDTHS.get(width, width), side * ratio * -(-len(values) // ncols))
        fig.set_layout_engine("constrained")
        grid.set_axis_labels(*labels)
        handles = [self.line(method) for method in methods]
        if level:
            handles.insert(0, self.line(level))
        for value, ax in grid.axes_dict.items():
            ax.set_title((titles or {}).get(value) or data_name(value))
            if level:
                mean = rows[(rows[panel] == value) & (rows.method == level)][y].mean()
                ax.axhline(mean, color=self[level]["color"], lw=0.8, zorder=1.5)
        fig.legend(handles=handles, loc="outside lower center", ncols=4 if width == "double" else 2)
        return fig, grid.axes_dict

    def strips(self, ax, rows, x, y, methods, order):
        """Every value of `y` as a small mark and the means as large ones, for each method beside each `x`."""
        import seaborn as sns

        options = dict(data=rows, x=x, y=y, order=order, hue="method", hue_order=methods, palette=self.palette(), ax=ax)
        sns.stripplot(**options, dodge=True, jitter=False, size=3, alpha=0.4, legend=False)
        side_by_side = dict(dodge=0.8 - 0.8 / len(methods), markers=[self[m]["marker"] or "o" for m in methods])
        sns.pointplot(**options, **side_by_side, errorbar=None, linestyle="none", markersize=5, legend=False)
        edges = (-0.7, len(order) - 0.3)
        if rows[y].dtype.kind in "biuf":
            ax.set_xlim(edges)
        else:
            ax.set_ylim(edges[::-1])

    def line(self, method, **changes):
        """A method's entry in a legend."""
        from matplotlib.lines import Line2D

        look = self.style(method, **changes)
        return Line2D([], [], **{key: look[key] for key in look if key != "zorder"})

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
