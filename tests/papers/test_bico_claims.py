"""Which runs decide the bilevel paper's claims about networks, on rows made up for it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from handful_papers.bico import fig08_networks, gmm, tab03_continual
from handful_papers.claims import AGREES, CANNOT_TELL, DISAGREES, Run
from handful_papers.entries import figure_entry
from handful_papers.verdicts import judge_all


def network_rows(*, train_accuracy, lead, noise=0.1, seeds=5):
    """Rows of Figure 8, two data sets, with BiCo `lead` points above every other method at both
    sizes."""
    rng = np.random.default_rng(0)
    rows = []
    methods = ["uniform", "kmeans++", "kcenter", "forgetting", "bico", "bico joint"]
    networks = ["WideResNet-16-4", "VGG16", "MobileNetV2"]
    for name, network, seed in itertools.product(["CIFAR-10", "SVHN"], networks, range(seeds)):
        level = dict(network=network, seed=seed, train_accuracy=train_accuracy, set=name)
        rows.append(dict(level, method="full", size=100, accuracy=90.0 + noise * rng.normal()))
        for method, size in itertools.product(methods, (20, 50)):
            accuracy = 89.0 + lead * method.startswith("bico") + noise * rng.normal()
            rows.append(dict(level, method=method, size=size, accuracy=accuracy))
    return pd.DataFrame(rows)


def on_sets(svhn):
    return {"sets": {"CIFAR-10": {"data": "cifar10"}, "SVHN": {"data": svhn}}}


def verdicts(name, evidence, rows, parameters):
    found = judge_all(
        figure_entry(f"bico/{name}")["claim"], Run(rows, parameters, {}, "laptop"), evidence
    )
    return {claim["id"].removeprefix("bico-"): claim["verdict"] for claim in found}


@pytest.mark.parametrize(
    ("data", "train_accuracy", "lead", "verdict"),
    [
        ("svhn", 99.0, 1.0, AGREES),
        ("svhn", 99.0, -1.0, DISAGREES),
        ("svhn", 51.0, 1.0, CANNOT_TELL),
        ("mnist", 99.0, 1.0, CANNOT_TELL),
    ],
)
def test_only_a_network_that_fits_rows_of_the_named_data_decides(
    data, train_accuracy, lead, verdict
):
    rows = network_rows(train_accuracy=train_accuracy, lead=lead)
    found = verdicts("fig08_networks", fig08_networks.evidence, rows, on_sets(data))
    assert found["fig08-above-simple"] == found["tab01-transfer"] == verdict


def test_a_difference_within_noise_is_neither_held_nor_refuted():
    rows = network_rows(train_accuracy=99.0, lead=0.0)
    found = verdicts("fig08_networks", fig08_networks.evidence, rows, on_sets("svhn"))
    assert found["tab02-joint"] == CANNOT_TELL
    assert found["tab01-like-forgetting"] == AGREES


def replay_rows(icarl):
    """Rows of Table 3 with BiCo 2 points above uniform sampling, and iCaRL `icarl` points, on three
    streams."""
    rng = np.random.default_rng(1)
    rows = []
    leads = {"no replay": 0.0, "uniform": 0.0, "icarl": icarl, "hardest": -3.0, "bico": 2.0}
    for stream, (method, lead), seed, task in itertools.product(
        ["PMNIST", "SMNIST", "SCIFAR-10"], leads.items(), range(5), range(1, 6)
    ):
        accuracy = 95.0 + lead + 0.1 * rng.normal()
        times = dict(select_seconds=1.0, train_seconds=20.0)
        rows.append(
            dict(
                stream=stream,
                method=method,
                seed=seed,
                task=task,
                beta=1.0,
                accuracy=accuracy,
                **times,
            )
        )
    return pd.DataFrame(rows).assign(val_accuracy=90.0)


@pytest.mark.parametrize(("icarl", "verdict"), [(-1.0, AGREES), (1.0, DISAGREES)])
def test_only_our_method_fails_where_another_one_is_above_uniform_sampling_everywhere(
    icarl, verdict
):
    data = {"PMNIST": "mnist", "SMNIST": "mnist", "SCIFAR-10": "cifar10"}
    parameters = {
        "streams": {s: {"data": d} for s, d in data.items()},
        "n_epochs": dict.fromkeys(data, 400),
    }
    found = verdicts("tab03_continual", tab03_continual.evidence, replay_rows(icarl), parameters)
    assert found["tab03-only"] == verdict
    assert (
        found["tab03-above-uniform"] == found["tab03-best"] == found["fig09-most-tasks"] == AGREES
    )


def test_the_first_order_rule_makes_one_gaussian_too_wide_where_trying_every_row_does_not():
    rows = pd.DataFrame([row for seed in range(12) for row in gmm.exact_rows(seed)])
    loss, volume = (
        rows.pivot(index="seed", columns="method", values=v) for v in ("excess_loss", "volume")
    )
    assert (loss.drop(columns="random").min(axis=1) >= loss["best"] - 1e-12).all()
    medians = volume.median()
    assert (
        medians["bico"] > 1.2 > 1.1 > max(abs(medians[m] - 1) + 1 for m in ("best", "exact greedy"))
    )


def test_the_closed_form_of_one_gaussian_is_the_fit():
    X = np.random.default_rng(3).normal(size=(12, 2))
    mixture = gmm.GaussianMixture(1, n_init=1)
    rows = [[0, 3, 5, 9], [1, 2, 3, 4]]
    loss, covariances = gmm.one_gaussian(X, rows)
    for chosen, value, covariance in zip(rows, loss, covariances):
        theta = gmm.fit(mixture, X[chosen])
        assert gmm.nll(mixture, theta, X) == pytest.approx(value, rel=1e-9)
        assert mixture.unpack(theta, 2)[2][0] == pytest.approx(covariance, rel=1e-6)
