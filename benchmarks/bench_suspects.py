"""Finding flipped labels: `suspects` by loss and by influence beside cleanlab, and what dropping the rows gives."""

import numpy as np
from _harness import Bench
from _tables import halves
from cleanlab.rank import get_label_quality_scores
from handful import Logistic, suspects
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

L2, N_FOLDS, SHARE, SEEDS = 1e-2, 5, 0.05, range(5)
SETS = ("breast_cancer", "digits", "phishing", "cod_rna", "credit_default", "mnist")
MOST = 2000  # training rows, and as many for the test


def model(n):
    return LogisticRegression(C=1 / (L2 * n), max_iter=1000)


def rankings(X, y, seed):
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    n_train = len(y) * (1 - 1 / N_FOLDS)
    chances = cross_val_predict(model(n_train), X, y, cv=folds, method="predict_proba")
    options = dict(n_folds=N_FOLDS, random_state=seed)
    return {
        "suspects, loss": suspects(Logistic(L2), X, y, **options).scores,
        "suspects, influence": suspects(Logistic(L2), X, y, rule="influence", **options).scores,
        "cleanlab, self-confidence": -get_label_quality_scores(y, chances, method="self_confidence"),
        "cleanlab, normalised margin": -get_label_quality_scores(y, chances, method="normalized_margin"),
    }


bench = Bench("suspects", "Suspect labels: 5 % flipped, found by rankings of the training rows")
for name in SETS:
    found, losses = {}, {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X, clean, X_test, y_test = halves(name, rng, MOST)
        n, k = len(clean), clean.max() + 1
        flipped = rng.choice(n, round(SHARE * n), replace=False)
        y = clean.copy()
        y[flipped] = (y[flipped] + rng.integers(1, k, len(flipped))) % k
        truth = np.isin(np.arange(n), flipped)
        scores = rankings(X, y, seed)
        for ranking, score in scores.items():
            found.setdefault(ranking, []).append(average_precision_score(truth, score))
        for ranking, score in {"none dropped": None, "the flipped dropped": truth.astype(float), **scores}.items():
            kept = slice(None) if score is None else np.argsort(-score, kind="stable")[len(flipped) :]
            trained = model(n).fit(X[kept], y[kept])
            loss = log_loss(y_test, trained.predict_proba(X_test), labels=trained.classes_)
            losses.setdefault(ranking, []).append(loss)
    for ranking, values in found.items():
        unit = f"average precision ± {np.std(values, ddof=1):.3f} ({len(values)} seeds)"
        bench.value(name, ranking, np.mean(values), unit=unit)
    for ranking, values in losses.items():
        unit = f"test log-loss, {round(100 * SHARE)} % dropped ± {np.std(values, ddof=1):.3f}"
        bench.value(name, ranking, np.mean(values), unit=unit)
bench.write(parameters=dict(l2=L2, n_folds=N_FOLDS, share=SHARE, seeds=list(SEEDS), most=MOST, sets=SETS))
