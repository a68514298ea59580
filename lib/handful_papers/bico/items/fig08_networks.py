"""Which numbers decide the claims of Figure 8, Table 1 and Table 2."""

from handful_papers.claims import Evidence
from handful_papers.verdicts import paired_differences

TARGET, OTHERS = "WideResNet-16-4", ("VGG16", "MobileNetV2")
SETS = {"CIFAR-10": 0.3, "SVHN": 0.14}  # share of the rows above which forgetting is as good as BiCo


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    found = {}
    for name, many in SETS.items():
        rows = run.rows[run.rows["set"] == name]
        data = run.parameters["sets"].get(name, {}).get("data")
        for claim, value in _of_one_set(rows, many, data).items():
            value = value if len(rows) else Evidence(lacks=f"{name} did not run")
            found[f"bico-{claim}-{name.replace('-', '').lower()}"] = value
    return found


def _of_one_set(rows, many, data):
    n, last = rows["size"].max(), rows.loc[rows.method != "full", "size"].max()
    at_end = rows[(rows["size"] == last) & (rows.method != "full")]
    curve = rows[(rows.network == TARGET) & ~rows.method.isin(["full", "bico joint"])]
    ends = rows[(rows["size"] == n) | (rows.method == "bico") & (rows["size"] == last)]

    def lead(part, a, b, networks=(TARGET,)):
        part = part[part.method.isin([a, b]) & part.network.isin(networks)]
        if missing := sorted({a, b} - set(part.method)) or sorted(set(networks) - set(part.network)):
            return Evidence(lacks=f"{' and '.join(missing)} did not run")
        gaps = paired_differences(part, a=a, b=b, value="accuracy", by=["network", "size"])
        return Evidence(gaps, facts=_facts(rows, networks, data))

    return {
        "fig08-compression": _to_full(ends[ends.network == TARGET], n, last, _facts(rows, [TARGET], data)),
        "fig08-above-uniform": lead(curve, "bico", "uniform"),
        "fig08-above-kcenter": lead(curve, "bico", "kcenter"),
        "fig08-above-kmeans": lead(curve, "bico", "kmeans++"),
        "fig08-like-forgetting": lead(curve[curve["size"] > many * n], "bico", "forgetting"),
        "fig08-forgetting-below-uniform": lead(curve[curve["size"] == curve["size"].min()], "uniform", "forgetting"),
        "tab01-transfer-above-uniform": lead(at_end, "bico", "uniform", OTHERS),
        "tab01-transfer-above-kcenter": lead(at_end, "bico", "kcenter", OTHERS),
        "tab01-like-forgetting": lead(at_end, "bico", "forgetting", OTHERS),
        "tab02-joint-vgg16": lead(at_end, "bico joint", "bico", ["VGG16"]),
        "tab02-joint-mobilenetv2": lead(at_end, "bico joint", "bico", ["MobileNetV2"]),
        "tab02-joint-wideresnet": lead(at_end, "bico joint", "bico"),
    }


def _to_full(ends, n, last, facts):
    """Accuracy with the largest coreset minus that with all rows, seed by seed."""
    if ends.empty:
        return None
    gaps = paired_differences(ends, a="bico", b="full", value="accuracy", by="network")
    return Evidence(
        {f"{last} of {n} rows": next(iter(gaps.values()))}, facts=facts | {"half_of_the_rows": int(last <= n / 2)}
    )


def _facts(rows, networks, data):
    """The least accuracy, over networks, on the rows that train them when these are all rows; the data that ran."""
    full = rows[(rows.method == "full") & rows.network.isin(networks)]
    if full.empty or "train_accuracy" not in full:  # records from before it was measured
        return {"data": data}
    return {"data": data, "train_accuracy": float(full.groupby("network").train_accuracy.mean().min())}
