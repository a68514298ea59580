"""The field's tables: their rules against brute force, what is chosen, and which way their claims
lean."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from handful_papers.claims import Run
from handful_papers.entries import figure_entry
from handful_papers.public import benchmark_items, coreax_mnist, dattri_lds, dattri_mlp, opendataval
from handful_papers.verdicts import judge_all
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge


@pytest.mark.parametrize("seed", range(5))
def test_the_lower_cluster_is_that_of_the_split_with_the_least_squared_error(seed):
    values = np.random.default_rng(seed).random(12)

    def error(cut):
        return sum(
            ((part - part.mean()) ** 2).sum()
            for part in (values[values <= cut], values[values > cut])
        )

    best = min(np.sort(values)[:-1], key=error)
    np.testing.assert_array_equal(opendataval.lower_cluster(values), values <= best)


@pytest.mark.parametrize("dataset", ["fried", "2dplanes", "breast_cancer", "digits"])
def test_a_wrong_label_is_another_class(dataset):
    clean = opendataval.noisy(dataset, 200, 0.0, np.random.default_rng(0))[1]
    X, y, wrong = opendataval.noisy(dataset, 200, 0.2, np.random.default_rng(0))
    assert wrong.sum() == 40
    np.testing.assert_array_equal(y != clean, wrong)
    np.testing.assert_allclose(X.std(axis=0), 1)


def test_sums_of_scores_that_are_the_truth_have_an_lds_of_one_and_reversed_ones_of_minus_one():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 3))
    subsets = [rng.choice(20, 10, replace=False) for _ in range(15)]
    losses = -np.stack([scores[rows].sum(axis=0) for rows in subsets])
    assert dattri_lds.lds(scores, subsets, losses) == pytest.approx(1)
    assert dattri_lds.lds(-scores, subsets, losses) == pytest.approx(-1)


def test_gradient_products_are_those_of_the_gradients_written_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 2))
    T = rng.normal(size=(3, 2))
    y = [0, 1, 2, 0]
    t = [2, 1, 0]
    W = rng.normal(size=(1, 3, 3))

    def gradient(x, label):
        x = np.append(x, 1)
        return np.outer(x, dattri_lds.softmax(x @ W[0]) - np.eye(3)[label]).ravel()

    own = np.array([[gradient(x, a) @ gradient(z, b) for z, b in zip(T, t)] for x, a in zip(X, y)])
    np.testing.assert_allclose(dattri_lds.gradient_products(X, np.array(y), T, np.array(t), W), own)


def test_a_training_is_that_of_torch_with_its_gradients_and_its_momentum(monkeypatch):
    monkeypatch.setattr(dattri_mlp, "DROPOUT", 0.0)
    X = torch.randn(130, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(130) % 3
    widths = (5, 4, 6, 3)
    rows = np.arange(0, 130, 2)
    found = dattri_mlp.trained(X, y, rows, widths, [2], seed=1)[0]

    generator = torch.Generator().manual_seed(1)
    parts = [
        part.requires_grad_() for layer in dattri_mlp.initial(widths, generator) for part in layer
    ]
    optimiser = torch.optim.SGD(parts, lr=dattri_mlp.RATE, momentum=dattri_mlp.MOMENTUM)
    for _ in range(2):
        order = torch.as_tensor(rows)[torch.randperm(len(rows), generator=generator)]
        # the draws of dropout, which keeps all
        for width in widths[1:-1]:
            torch.empty(len(rows), width).bernoulli_(1.0, generator=generator)
        for batch in order.split(dattri_mlp.BATCH):
            h = X[batch]
            for weights, biases in zip(parts[:-2:2], parts[1:-2:2]):
                h = torch.relu(h @ weights.T + biases)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(h @ parts[-2].T + parts[-1], y[batch]).backward()
            optimiser.step()
    for mine, theirs in zip([part for layer in found for part in layer], parts):
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-4, atol=1e-6)


def test_the_network_that_is_asked_is_the_trained_one_and_the_control_is_its_gradients_products():
    X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(12) % 3
    layers = dattri_mlp.trained(X, y, np.arange(12), (5, 4, 3), [2], seed=1)[0]
    model = dattri_mlp.network_of(layers)
    features = []
    rest = []
    for x, label in zip(X, y):
        p = torch.softmax(model(x), dim=0)[label]
        features.append(
            torch.cat(
                [g.ravel() for g in torch.autograd.grad(torch.log(p / (1 - p)), model.parameters())]
            )
        )
        rest.append(1 - p.item())
    F = torch.stack(features)
    expected = torch.tensor(rest)[:, None] * (F @ F.T)
    np.testing.assert_allclose(
        dattri_mlp.products(layers, X, y, X, y), expected, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("method", coreax_mnist.METHODS_SHOWN)
def test_as_many_distinct_rows_are_chosen_as_asked_for_and_no_label_is_looked_at_where_that_is_said(
    method,
):
    (X, y), valid, _ = coreax_mnist.tables("digits", 200, 0)
    P = coreax_mnist.components(X)
    rows = coreax_mnist.choose(method, 25, P, y, n_pool=400, seed=0)
    assert len(np.unique(rows)) == 25
    other = coreax_mnist.choose(method, 25, P, np.roll(y, 7), n_pool=400, seed=0)
    assert np.array_equal(rows, other) == (method not in coreax_mnist.LABELLED)
    if method == "medoids by class":
        assert np.ptp(np.bincount(y[rows], minlength=10)) <= 1
    # four fifths of the digits
    assert len(X) + len(valid[0]) == 1437


@pytest.mark.parametrize("dataset", ["digits", "breast_cancer"])
def test_tables_are_scaled_as_told_and_labels_are_counted_from_nought(dataset):
    pool, valid, test = coreax_mnist.tables(dataset, 100, 0)
    for X, y in (pool, valid, test):
        assert X.dtype == np.float32
        np.testing.assert_array_equal(np.unique(y), np.arange(10 if dataset == "digits" else 2))
    if dataset == "digits":
        assert (pool[0].min(), pool[0].max()) == (0, 1)
    else:
        np.testing.assert_allclose(pool[0].std(axis=0), 1, rtol=1e-4)


def test_the_memory_of_a_choice_counts_its_components_and_not_the_rows_that_were_there(rng):
    X = rng.normal(size=(40_000, 100)).astype(np.float32)
    y = np.zeros(40_000, int)
    options = dict(n_pool=0, seed=0)
    centred = X.nbytes / 2**20
    assert coreax_mnist.mebibytes("uniform", 10, X, y, **options) < 0.5 * centred
    assert centred < coreax_mnist.mebibytes("medoids", 10, X, y, **options) < 5 * centred


def test_the_published_numbers_are_those_of_the_cited_files():
    best = coreax_mnist.printed().max().round(1)
    assert best.to_dict() == {25: 55.1, 50: 69.1, 100: 73.6, 500: 85.6, 1000: 88.7, 5000: 92.8}
    assert len(coreax_mnist.printed()) == 9
    assert opendataval.printed().loc[
        "Data-OOB, logistic models", ["fried 20%", "2dplanes 20%"]
    ].tolist() == [
        0.524,
        0.587,
    ]
    assert dattri_lds.printed().iloc[0] == 0.80
    assert dattri_mlp.printed().index[0] == "TRAK-50"


@pytest.mark.parametrize(("lead", "verdict"), [(3.0, "agrees"), (-3.0, "disagrees")])
def test_medoids_are_judged_against_the_best_solver_of_each_size(lead, verdict):
    best = coreax_mnist.printed().max()
    rows = []
    for method, m, seed in product(coreax_mnist.METHODS_SHOWN, (25, 1000, 5000), range(5)):
        rows.append(
            dict(
                dataset="mnist",
                method=method,
                m=m,
                seed=seed,
                test=best[m] + lead + 0.1 * seed,
                valid=0.0,
            )
        )
    # which no claim is on
    rows += [row | dict(dataset="cod_rna", test=50.0 - 2 * lead) for row in rows]
    run = Run(pd.DataFrame(rows), {"dataset": "mnist"}, {}, "laptop", ("mnist",))
    judged = judge_all(figure_entry("public/coreax_mnist")["claim"], run, coreax_mnist.evidence)
    assert [claim["verdict"] for claim in judged[:1]] == [verdict]


# --- questions of a benchmark


def judged_by_few():
    full = benchmark_items.scores(benchmark_items.MADE)
    rng = np.random.default_rng(0)
    rows, judged = benchmark_items.models(full, benchmark_items.INTERPOLATION, rng)
    return full[rows], full[judged], rng.permutation(full.shape[1])[:30]


def test_the_estimate_is_by_scikit_learns_ridge_and_its_error_of_questions_left_out():
    known, judged, asked = judged_by_few()
    estimated, error = benchmark_items.regression_estimate(known, judged[:, asked], asked)
    n = known.shape[1]
    rest = np.setdiff1d(np.arange(n), asked)
    residuals = np.empty((len(judged), 30))
    for model, answers in enumerate(judged):
        fit = Ridge(alpha=benchmark_items.ALPHA).fit(known[:, asked].T, answers[asked])
        predicted = fit.predict(known.T)
        share = 1 / (1 + 30 / len(rest))
        gain = (predicted[rest].mean() - predicted[asked].mean()) * share
        assert estimated[model] == pytest.approx(answers[asked].mean() + gain)
        for place, question in enumerate(asked):
            others = np.delete(asked, place)
            fit = Ridge(alpha=benchmark_items.ALPHA).fit(known[:, others].T, answers[others])
            residuals[model, place] = answers[question] - fit.predict(known[:, [question]].T)[0]
    spread = residuals.std(axis=1, ddof=1) / np.sqrt(30) * np.sqrt(1 - 30 / n)
    np.testing.assert_allclose(error, spread)


def test_all_questions_tell_the_accuracy_itself():
    known, judged, _ = judged_by_few()
    every = np.arange(known.shape[1])
    estimated, error = benchmark_items.regression_estimate(known, judged, every)
    np.testing.assert_allclose(estimated, judged.mean(axis=1))
    np.testing.assert_allclose(error, 0, atol=1e-12)


@pytest.mark.parametrize("split", [benchmark_items.INTERPOLATION, benchmark_items.EXTRAPOLATION])
def test_no_model_is_known_and_judged_and_extrapolation_judges_the_best(split):
    full = benchmark_items.scores(benchmark_items.MADE)
    known, judged = benchmark_items.models(full, split, np.random.default_rng(0))
    assert set(known).isdisjoint(judged)
    if split == benchmark_items.EXTRAPOLATION:
        accuracy = full.mean(axis=1)
        assert accuracy[known].max() <= accuracy[judged].min()


def test_anchor_points_are_one_of_each_group_of_questions_that_are_answered_alike():
    rng = np.random.default_rng(0)
    groups = np.repeat(rng.integers(0, 2, (40, 4)), [5, 10, 20, 65], axis=1)
    chosen, shares = benchmark_items.anchors(groups, 4, np.random.default_rng(0))
    assert len({tuple(groups[:, question]) for question in chosen}) == 4
    np.testing.assert_allclose(sorted(shares), [0.05, 0.1, 0.2, 0.65])


def test_components_are_those_of_scikit_learn_up_to_sign():
    known, _, _ = judged_by_few()
    found = benchmark_items.components(known, 3)
    plain = PCA(3).fit_transform(known.T)
    plain = plain / plain.std(axis=0)
    np.testing.assert_allclose(np.abs(found[:, 1:]), np.abs(plain), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[:, 0], known.mean(axis=0))
