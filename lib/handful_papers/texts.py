"""Numbers, settings and judged claims as a reader wants them: as text, and as a table."""

import numpy as np


def number_text(value):
    """A number with four significant digits and no more zeros than it needs; other values as
    str."""
    is_truth = isinstance(value, (bool, np.bool_))
    if is_truth or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def setting_text(setting):
    """A setting as text: "uniform / covtype / 50"."""
    return " / ".join(map(str, setting)) if isinstance(setting, tuple) else str(setting)


def interval_text(low, high):
    """An interval as text, with a space before it: " [1.9, 2.7]"."""
    return f" [{number_text(low)}, {number_text(high)}]"


def steady(value):
    """A number to ten digits, so that a record says the same on any processor; words as they
    are."""
    if value is None or isinstance(value, str):
        return value
    # The sum turns -0.0 into 0.0.
    return float(f"{float(value):.10g}") + 0.0


def ours_text(claim):
    """Our number of a claim as text: effect, 95 % interval, unit; beside the worst setting their
    average: "2.31 [1.9, 2.7] points, on average 4"."""
    ours = claim["ours"]
    if ours is None or isinstance(ours, str):
        return ours or "–"
    has_interval = claim["low"] is not None and claim["low"] != claim["high"]
    interval = interval_text(claim["low"], claim["high"]) if has_interval else ""
    average = f", on average {number_text(claim['average'][0])}" if "average" in claim else ""
    return f"{number_text(ours)}{interval} {claim['unit']}{average}"


def paper_text(claim):
    """The paper's number of a claim as text, with its unit; words stay as they are."""
    paper = claim["paper"]
    return paper if isinstance(paper, str) else f"{number_text(paper)} {claim['unit']}"


def verdict_text(claim):
    """A verdict with its reason: "cannot tell (noise)"."""
    return f"{claim['verdict']} ({claim['reason']})" if claim["reason"] else claim["verdict"]


# A column of the table of claims -> the text that it has of a judged claim.
COLUMNS = {
    "claim": lambda claim: claim["text"],
    "paper": paper_text,
    "ours": ours_text,
    "verdict": verdict_text,
    "judged by": lambda claim: claim["why"],
}


def claims_table(claims):
    """Judged claims for display: claim, paper, ours [95 % interval], verdict, how it was judged."""
    import pandas as pd

    lines = [{head: text(claim) for head, text in COLUMNS.items()} for claim in claims]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    # A plain frame would cut the claims short.
    return table.style.hide(axis="index").set_uuid("claims")
