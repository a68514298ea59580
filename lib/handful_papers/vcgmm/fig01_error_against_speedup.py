"""Which numbers decide the claims of Figure 1, Table 1 and Figure S.3."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences
from handful_papers.vcgmm.tables import (
    PAPERS_DATA,
    against_printed,
    as_printed,
    cells,
    quantities,
    same_error_ratios,
    summarise,
)

E_STEPS = "initial_e_steps"
__all__ = ["cells", "evidence"]
# Columns of Table 1 that decide a claim; iterations stand in its table alone.
JUDGED = ("error", "time", "distances", "share")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    panels = {panel["role"]: panel for panel in run.parameters["panels"]}
    # A panel whose data are the paper's, not a stand-in.
    own = {role: panel for role, panel in panels.items() if PAPERS_DATA.get(panel["data"]) == role}
    sizes = run.rows
    if not _facts(own.get("RNA", {}))[E_STEPS]:
        sizes = sizes[sizes.dataset != own.get("RNA", {}).get("data")]
    found = {
        "vcgmm-fig01-time-to-lwcs-error": _to_lwcs(run, panels, "CIFAR-10"),
        "vcgmm-fig01-error-below-lwcs": _lower(run, own),
        "vcgmm-tab01-vargmm-better": _vargmm(run, own),
        "vcgmm-fig01-share": _share(run, own),
        "vcgmm-figS3-nmi": paired_differences(
            sizes, a="vcgmm", b="lwcs", value="nmi", by=["dataset", "size"]
        ),
    }
    return found | {f"vcgmm-tab01-{quantity}": _printed(run, own, quantity) for quantity in JUDGED}


def _facts(panel):
    return {E_STEPS: panel.get(E_STEPS, 0)}


def _printed(run, own, quantity):
    """Ours against the printed value of each method, on each of the paper's sets that the run
    has."""
    found = {}
    for role, panel in own.items():
        # The paper starts RNA with four E-steps.
        if role != "RNA" or _facts(panel)[E_STEPS]:
            values = against_printed(run.rows, panel["data"], role, quantity)
            found |= {(role, method): value for method, value in values.items()}
    return Evidence(found, lacks="" if found else "no data set and coreset size of Table 1")


def _to_lwcs(run, panels, role):
    if role not in panels:
        return Evidence(lacks=f"neither {role} nor a stand-in is among the data of this run")
    dataset = panels[role]["data"]
    ratios = same_error_ratios(run.rows, dataset)
    if np.isnan(ratios).any():
        return Evidence(
            lacks=f"{dataset}: the coresets do not lie around an error of 10 % in every seed"
        )
    return Evidence({dataset: ratios}, facts=dict(clusters=panels[role]["clusters"]))


def _lower(run, own):
    if "CIFAR-10" not in own:
        return Evidence(lacks="CIFAR-10 is not among the data of this run")
    rows = run.rows[run.rows.dataset == own["CIFAR-10"]["data"]]
    return paired_differences(
        rows, a="vcgmm", b="lwcs", value="eta", by="size", higher_is_better=False
    )


def _near_target(run, panels, method):
    """Role -> `quantities` at the coreset size nearest to 10 %, or of var-GMM-S at the paper's
    G."""
    summary = summarise(run.rows)
    found = {}
    for role, panel in panels.items():
        setting = as_printed(summary, panel["data"], role, method).setting
        found[role] = quantities(run.rows, panel["data"], method, setting)
    return found


def _vargmm(run, own):
    panels = {role: own[role] for role in ("RNA", "CIFAR-10") if role in own}
    if len(panels) < 2 or not _facts(panels["RNA"])[E_STEPS]:
        return Evidence(lacks="RNA with initial E-steps and CIFAR-10 are not both in this run")
    found = _near_target(run, panels, "vargmm")
    return {panels[role]["data"]: of_role.error for role, of_role in found.items()}


def _share(run, panels):
    if not panels:
        return Evidence(lacks="none of the paper's data sets is among the data of this run")
    ours = _near_target(run, panels, "vcgmm")
    lwcs = _near_target(run, panels, "lwcs")
    settings = {panels[role]["data"]: ours[role].share - lwcs[role].share for role in panels}
    fewest = min(panel["clusters"] for panel in panels.values())
    return Evidence(settings, facts=dict(clusters=fewest))
