"""`Comparison`: what `compare` measured, as a frame, a table and a figure."""

import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle, zip_longest
from typing import Any

import numpy as np
from scipy.special import stdtrit

ALL_ROWS = "all rows"
UNIFORM = "uniform"
STRATIFIED = "stratified"
# what the selectors' seconds could have bought instead
BEST_DRAW = "best of draws"
MORE_ROWS = "more uniform rows"
# How lines look: colour, mark, dashes. The methods beside the selectors are grey; the colours are
# Okabe and Ito's.
GREYS = {UNIFORM: ("#777777", "o", ":"), STRATIFIED: ("#777777", "s", "--")}
GREYS |= {BEST_DRAW: ("#9a9a9a", "^", "-."), MORE_ROWS: ("#9a9a9a", "v", ":")}
COLOURS = [
    ("#D55E00", "D", "-"),
    ("#0072B2", "s", "-"),
    ("#009E73", "P", "-"),
    ("#CC79A7", "X", "-"),
    ("#E69F00", "*", "-"),
]
# Characters of a line of what a Comparison prints.
WIDTH = 100
# Seconds of training on all rows below which nothing is worth saving and clocks are noise.
BRIEF = 0.005
# Of the bound of what a method loses.
CONFIDENCE = 0.95


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` measured.

    Attributes
    ----------
    frame : pandas.DataFrame, one row for each method, size and seed, with ``score`` on the held-out
        rows; ``choose_seconds`` and ``train_seconds`` of wall-clock time; ``n_rows``, the number of
        rows trained on; ``n_draws``, how many draws the best was picked from; ``weighted``, whether
        the estimator took their weights; ``error``, the message of a method that failed (its score
        is NaN), or ""
    scoring : str, the name of the scores
    """

    frame: Any
    scoring: str

    def __repr__(self) -> str:
        """The summary, every column of it however narrow the terminal; a long name goes on in the
        lines below."""
        table = self.summary()
        names = table.pop("method")
        head, *lines = self._in_words(table).to_string(index=False).splitlines()
        room = WIDTH - len(head) - 1
        rows = [("method", head)]
        for method in names.unique():
            own = [line for name, line in zip(names, lines) if name == method]
            rows += zip_longest(textwrap.wrap(method, room), own, fillvalue="")
        width = max(len(name) for name, _ in rows)
        failed = (
            self.frame[self.frame["error"] != ""].groupby(["method", "error"], sort=False).size()
        )
        told = [f"{method}, {n} failed: {error}" for (method, error), n in failed.items()]
        lines = [f"{a:<{width}} {b:<{len(head)}}" for a, b in rows]
        return "\n".join(
            [f"{self._label} on held-out rows; seconds on this machine", *lines, *told]
        )

    def _in_words(self, table):
        # The summary as it is read: cells of a number and its deviation under short names.
        table["score"] *= self._sign
        for name in ("score", "lead"):
            deviations = table.pop(f"{name}_std")
            table[name] = [_cell(mean, std) for mean, std in zip(table[name], deviations)]
        for name in ("choose_seconds", "train_seconds"):
            table[name] = [_cell(seconds) for seconds in table[name]]
        failed = table.pop("failed")
        table["saves_from"] = [_fits(n) for n in table.pop("saves_from")]
        table["failed"] = failed
        table["n_rows"] = [_cell(n) if np.isnan(n) else f"{n:.0f}" for n in table["n_rows"]]
        shown = {
            "n_rows": "rows",
            "choose_seconds": "choose (s)",
            "train_seconds": "train (s)",
            "saves_from": "saves from",
        }
        if self._sign < 0:
            shown["score"] = "loss"
        return table.rename(columns=shown)

    @property
    def _sign(self):
        return -1.0 if self.scoring.startswith("neg_") else 1.0

    @property
    def _label(self):
        # a negative loss is shown as the loss
        return self.scoring.removeprefix("neg_")

    def summary(self) -> Any:
        """A row a method and size: rows trained on, mean and deviation of score and lead over
        uniform, seconds.

        ``n_rows`` and the seconds are medians. "more uniform rows" trains on more than its `size`,
        the rows of the selectors at whose seconds it is measured, and weights that are optimised
        may leave fewer rows than `size`. ``lead`` is the mean over seeds of the score minus that of
        uniform sampling of the same size and seed, and ``lead_std`` its standard deviation;
        ``failed`` counts the seeds without a score. ``saves_from`` is the number of fits from which
        choosing once and training on few rows saves seconds over training on all rows, which
        depends on the machine. It is infinite where no number does, as where a method trains on all
        rows, too. It is NaN for all rows, where these train in less than .005 seconds, and where
        the seeds do not show a score as good as that of all rows: what a method loses, paired by
        seed, must be at most the standard deviation of all rows' score over the seeds, at 95 %
        confidence by Student's t. For one seed it must lose nothing.

        Returns
        -------
        pandas.DataFrame
        """
        frame = self.frame
        keys = ["method", "size"]
        uniform = frame[frame["method"] == UNIFORM].set_index(["size", "seed"])["score"]
        pairs = frame.set_index(["size", "seed"]).index
        frame = frame.assign(
            lead=frame["score"] - uniform.reindex(pairs).to_numpy(), failed=frame["error"] != ""
        )
        groups = frame.groupby(keys, sort=False)
        columns = {
            "n_rows": groups["n_rows"].median(),
            "score": groups["score"].mean(),
            "score_std": groups["score"].std(),
            "lead": groups["lead"].mean(),
            "lead_std": groups["lead"].std(),
            "choose_seconds": groups["choose_seconds"].median(),
            "train_seconds": groups["train_seconds"].median(),
            "failed": groups["failed"].sum(),
        }
        table = type(frame)(columns).reset_index()
        full = table.loc[table["method"] == ALL_ROWS, "train_seconds"]
        is_brief = not len(full) or full.iloc[0] < BRIEF
        saved = (np.nan if is_brief else full.iloc[0]) - table["train_seconds"]
        # Between two times of training on all rows is the clock's noise.
        all_rows = table.loc[table["method"] == ALL_ROWS, "n_rows"].max()
        saved = saved.where(saved.isna() | (table["n_rows"] < all_rows), 0.0)
        fits = np.maximum(np.ceil(table["choose_seconds"] / saved.where(saved > 0)), 1).fillna(
            np.inf
        )
        counts = self._is_as_good(keys) & saved.notna() & (table["method"] != ALL_ROWS)
        table["saves_from"] = fits.where(counts)
        return table

    def _is_as_good(self, keys):
        # Of each method and size, in the frame's order, whether the seeds show that it loses no
        # more against all rows than another split of the data does.
        frame = self.frame
        all_rows = frame[frame["method"] == ALL_ROWS].set_index("seed")["score"]
        lost = frame.assign(lost=all_rows.reindex(frame["seed"]).to_numpy() - frame["score"])
        groups = lost.groupby(keys, sort=False)["lost"]
        seeds = groups.count()
        most = groups.mean() + groups.sem() * stdtrit(seeds - 1, CONFIDENCE)
        # One seed has no spread. Where there is no score, nothing says that it is as good.
        most = most.where(seeds > 1, groups.mean())
        return (most <= np.nan_to_num(all_rows.std())).reset_index(drop=True)

    def plot(self, axes: Any = None) -> Any:
        """Draw score and seconds (choosing and training) against size: means, bands of a standard
        deviation.

        Parameters
        ----------
        axes : two matplotlib axes, or None for a new figure

        Returns
        -------
        array of the two axes

        Raises
        ------
        ImportError
            without matplotlib
        """
        if find_spec("matplotlib") is None:
            raise ImportError("plot needs matplotlib: pip install matplotlib.")
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(6.9, 2.9), layout="constrained")
        table = self.summary()
        table["seconds"] = table["choose_seconds"] + table["train_seconds"]
        table["score"] *= self._sign
        looks = cycle(COLOURS)
        for method, rows in table.groupby("method", sort=False):
            if method == ALL_ROWS:
                score = rows["score"].item()
                std = np.nan_to_num(rows["score_std"].item())
                axes[0].axhspan(score - std, score + std, color="#222222", alpha=0.1, linewidth=0)
                for axis, level in zip(axes, (score, rows["seconds"].item())):
                    axis.axhline(level, color="#222222", linewidth=1, label=method)
                continue
            color, marker, dashes = GREYS.get(method) or next(looks)
            look = dict(
                color=color,
                marker=marker,
                linestyle=dashes,
                markersize=4,
                linewidth=1.3,
                label=method,
            )
            low = rows["score"] - rows["score_std"]
            high = rows["score"] + rows["score_std"]
            axes[0].fill_between(rows["size"], low, high, color=color, alpha=0.15, linewidth=0)
            for axis, column in zip(axes, ("score", "seconds")):
                axis.plot(rows["size"], rows[column], **look)
        sizes = sorted(table.loc[table["method"] != ALL_ROWS, "size"].unique())
        for axis, label in zip(axes, (self._label, "seconds to choose and train")):
            axis.set(xscale="log", xlabel="rows chosen", ylabel=label)
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axis.minorticks_off()
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(color="#e4e4e4", linewidth=0.5)
            axis.set_axisbelow(True)
        axes[1].set_yscale("log")
        axes[0].legend(frameon=False, fontsize="small")
        return axes


def _fits(n):
    if np.isnan(n):
        return "–"
    return "never" if np.isinf(n) else f"fit {n:,.0f}"


def _cell(mean, std=np.nan):
    # Equal scores may differ by rounding.
    std = 0.0 if std < 1e-12 * abs(mean) else std
    spread = "" if np.isnan(std) else f" ± {std:.2g}"
    return "–" if np.isnan(mean) else f"{mean:.{4 if spread else 3}g}{spread}"
