"""Cross-validation on matched rows beside cross-validation on all rows: error of the curve, CPU
seconds and memory."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _harness import Bench
from handful import Logistic, MatchedCoreset, data
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss

FOLDS = 5
TABLES = ("cod_rna", "htru2", "credit_default", "susy_subset", "phishing", "skin_nonskin")


def seconds_of(function):
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def model(l1_ratio, penalty, mass):
    # liblinear penalises the intercept, too, which is scaled to be nearly free.
    solver = "liblinear" if l1_ratio else "lbfgs"
    return LogisticRegression(
        C=1 / (penalty * mass),
        l1_ratio=l1_ratio,
        solver=solver,
        intercept_scaling=10,
        tol=1e-6,
        max_iter=3000,
    )


def curve(X, y, w, fold, l1_ratio, penalties):
    """Mean held-out loss at each penalty."""
    found = []
    for penalty in penalties:
        losses = []
        for k in range(FOLDS):
            held = fold == k
            one = model(l1_ratio, penalty, w[~held].sum())
            one.fit(X[~held], y[~held], sample_weight=w[~held])
            losses.append(log_loss(y[held], one.predict_proba(X[held]), sample_weight=w[held]))
        found.append(np.mean(losses))
    return np.array(found)


def compared(bench, case, X, y, penalties, *, least=None):
    """Both curves, on the matched rows, on all rows and on a uniform draw of as many."""
    rng = np.random.default_rng(0)
    ones = np.ones(len(X))
    selector = MatchedCoreset(Logistic(), folds=FOLDS, penalties=[1e-4, 1e-1], random_state=0)
    chosen, rows = seconds_of(lambda: selector.fit(X, y))
    few = rows.take(X, y)
    drawn = rng.choice(len(X), len(few[1]), replace=False)
    uniform = (
        X[drawn],
        y[drawn],
        np.full(len(drawn), len(X) / len(drawn)),
        np.arange(len(drawn)) % 5,
    )
    bench.value(case, "rows", len(few[1]))
    bench.value(case, "curve_error_", rows.curve_error_, unit="nats")
    for name, l1_ratio, bar in (("L2", 0.0, 2e-4), ("L1", 1.0, 5e-4)):
        on_few, small = seconds_of(lambda: curve(*few, l1_ratio, penalties))
        on_all, every = seconds_of(lambda: curve(X, y, ones, rows.row_folds_, l1_ratio, penalties))
        of_draw = curve(*uniform, l1_ratio, penalties)
        error = np.abs(small - every).max()
        steps = abs(int(small.argmin()) - int(every.argmin()))
        bench.value(case, f"{name}: error of the mean", error, unit="nats", bar=bar)
        bench.value(
            case,
            f"{name}: error on a uniform draw of as many rows",
            np.abs(of_draw - every).max(),
            unit="nats",
        )
        bench.value(case, f"{name}: best penalty, steps from that of all", steps, bar=1)
        if least is not None:
            with_choice, without = least
            bench.value(
                case,
                f"{name}: CPU of all rows over choice and curve",
                on_all / (chosen + on_few),
                unit=f"x ({on_all:.3g} s over {chosen:.3g} s and {on_few:.3g} s)",
                bar=with_choice,
                direction=">=",
            )
            bench.value(
                case,
                f"{name}: CPU of all rows over the curve",
                on_all / on_few,
                unit="x",
                bar=without,
                direction=">=",
            )


def generated(n, d, rng):
    X = rng.standard_t(6, size=(n, d))
    X[:, 0] = X[:, 0] > 1
    slopes = np.random.default_rng(0).normal(size=d) * 0.4
    return X, (rng.random(n) < 1 / (1 + np.exp(1.5 - X @ slopes))).astype(int)


def on_disk(bench, n=10_000_000, d=20, n_files=50):
    """Ten million rows in files: the choice in a process of its own, and ten penalties."""
    case = f"{n:,} x {d} in files"
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_files):
            X, y = generated(n // n_files, d, np.random.default_rng(i + 1))
            np.save(Path(folder) / f"X{i}.npy", X)
            np.save(Path(folder) / f"y{i}.npy", y)
        out = Path(folder) / "found.npz"
        subprocess.run([sys.executable, __file__, folder, str(out)], check=True)
        with np.load(out) as found:
            few = found["X"], found["y"], found["w"], found["fold"]
            peak, chosen, told = (float(found[name]) for name in ("peak", "seconds", "error"))
        penalties = np.geomspace(1e-4, 1e-1, 10)
        on_few, told_by_few = seconds_of(lambda: curve(*few, 0.0, penalties))
        least = int(told_by_few.argmin())
        passed, of_descent = seconds_of(lambda: one_pass(folder, n_files, penalties[least]))
        X, y = uniform_rows(folder, n_files, len(few[1]))
        ones = np.full(len(y), n / len(y))
        of_draw = curve(X, y, ones, np.arange(len(y)) % FOLDS, 0.0, penalties)
    bench.value(case, "rows", len(few[1]))
    bench.value(case, "curve_error_", told, unit="nats")
    bench.value(case, "CPU of the choice", chosen, unit="s")
    bench.value(case, "CPU of five folds, ten penalties", on_few, unit="s")
    bench.value(case, "peak memory of the choice", peak, unit="MiB", bar=1024)
    bench.value(case, "best penalty", penalties[least])
    bench.value(case, "CPU of SGDClassifier: one pass, five folds, one penalty", passed, unit="s")
    bench.value(
        case,
        "mean held-out loss of SGDClassifier above that of the curve",
        of_descent - told_by_few[least],
        unit="nats",
    )
    bench.value(
        case,
        "largest distance of the curve of a uniform draw of as many rows",
        np.abs(of_draw - told_by_few).max(),
        unit="nats",
    )
    bench.value(
        case,
        "best penalty of that draw, steps from that of the curve",
        abs(int(of_draw.argmin()) - least),
    )


def files_of(folder, n_files):
    """The rows and labels of each file."""
    for i in range(n_files):
        yield np.load(Path(folder) / f"X{i}.npy"), np.load(Path(folder) / f"y{i}.npy")


def one_pass(folder, n_files, penalty):
    """Mean held-out loss of stochastic gradient descent that reads each file once, in folds."""
    models = [
        SGDClassifier("log_loss", alpha=penalty, average=True, random_state=k) for k in range(FOLDS)
    ]
    for X, y in files_of(folder, n_files):
        fold = np.arange(len(y)) % FOLDS
        for k, one in enumerate(models):
            one.partial_fit(X[fold != k], y[fold != k], classes=[0, 1])
    losses = []
    for X, y in files_of(folder, n_files):
        fold = np.arange(len(y)) % FOLDS
        for k, one in enumerate(models):
            losses.append(log_loss(y[fold == k], one.predict_proba(X[fold == k])))
    return np.mean(losses)


def uniform_rows(folder, n_files, size):
    """About so many rows, as many of each file."""
    rng = np.random.default_rng(0)
    parts = []
    for X, y in files_of(folder, n_files):
        some = rng.choice(len(y), -(-size // n_files), replace=False)
        parts.append((X[some], y[some]))
    X, y = zip(*parts, strict=True)
    return np.concatenate(X), np.concatenate(y)


def choose(folder, out):
    pattern = f"{folder}/X*.npy", f"{folder}/y*.npy"
    selector = MatchedCoreset(Logistic(), folds=FOLDS, penalties=[1e-4, 1e-1], random_state=0)
    seconds, rows = seconds_of(lambda: selector.fit(*pattern))
    X, y, w, fold = rows.take(*pattern)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error = rows.curve_error_
    np.savez(out, X=X, y=y, w=w, fold=fold, peak=peak, seconds=seconds, error=error)


def main():
    bench = Bench("tuning", "Cross-validation on matched rows")
    penalties = np.geomspace(1e-4, 5e-2, 4)
    for name in TABLES:
        table = data.load(name)
        X = table.X - table.X.mean(0)
        scale = X.std(0)
        X = X[:, scale > 0] / scale[scale > 0]
        y = (table.y == table.y.max()).astype(int)
        compared(bench, f"{name}, {X.shape[0]:,} x {X.shape[1]}", X, y, penalties)
    X, y = generated(400_000, 30, np.random.default_rng(9))
    compared(bench, "generated, 400,000 x 30", X, y, penalties, least=(6, 50))
    on_disk(bench)
    bench.write(runs="one run of each", data="named tables and generated rows", l2=list(penalties))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        choose(*sys.argv[1:])
    else:
        main()
