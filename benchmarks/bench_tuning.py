"""Cross-validation on matched rows beside cross-validation on all rows: error of the curve, CPU
seconds and memory."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from _harness import Bench, peak_memory
from handful import Logistic, MatchedCoreset, data
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss

FOLDS = 5
# The tolerance of scikit-learn's solvers by default: their curves are off by some 1e-5 then.
QUICK = 1e-4
TABLES = ("cod_rna", "htru2", "credit_default", "susy_subset", "phishing", "skin_nonskin")


def seconds_of(function):
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def model(l1_ratio, penalty, mass, tol):
    # Of scikit-learn's solvers the quickest here. liblinear penalises the intercept, too, which is
    # scaled to be nearly free.
    solver = "liblinear" if l1_ratio else "lbfgs"
    return LogisticRegression(
        C=1 / (penalty * mass),
        l1_ratio=l1_ratio,
        solver=solver,
        intercept_scaling=10,
        tol=tol,
        max_iter=3000,
    )


def curve(X, y, w, fold, l1_ratio, penalties, tol=1e-6):
    """Mean held-out loss at each penalty."""
    found = []
    for penalty in penalties:
        losses = []
        for k in range(FOLDS):
            held = fold == k
            one = model(l1_ratio, penalty, w[~held].sum(), tol)
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
            quick, _ = seconds_of(
                lambda: curve(X, y, ones, rows.row_folds_, l1_ratio, penalties, QUICK)
            )
            times(bench, case, name, {1e-6: on_all, QUICK: quick}, chosen, on_few, least)


def times(bench, case, name, on_all, chosen, on_few, least):
    """CPU of all rows over that on the matched ones, for each tolerance of the former; the bars are
    of the quickest."""
    with_choice, without = least
    quickest = min(on_all, key=on_all.get)
    for tol, seconds in on_all.items():
        at = f"{name}: CPU of all rows, tol={tol:g}"
        is_quickest = tol == quickest
        bench.value(
            case,
            f"{at}, over choice and curve",
            seconds / (chosen + on_few),
            unit=f"x ({seconds:.3g} s over {chosen:.3g} s and {on_few:.3g} s)",
            bar=with_choice if is_quickest else None,
            direction=">=",
        )
        bench.value(
            case,
            f"{at}, over the curve",
            seconds / on_few,
            unit="x",
            bar=without if is_quickest else None,
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
    penalties = np.geomspace(1e-4, 1e-1, 10)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_files):
            X, y = generated(n // n_files, d, np.random.default_rng(i + 1))
            np.save(Path(folder) / f"X{i}.npy", X)
            np.save(Path(folder) / f"y{i}.npy", y)
        few, told, chosen, on_few = chosen_and_tuned(bench, case, "files", folder, penalties)
        chosen_and_tuned(bench, case, "dask", folder, penalties)
        least = int(told.argmin())
        bench.value(case, "best penalty", penalties[least])
        passed, of_descent = seconds_of(lambda: one_pass(folder, n_files, penalties[least]))
        bench.value(
            case,
            "SGDClassifier, one pass, five folds, one penalty: loss above the curve",
            of_descent - told[least],
            unit=f"nats, in {passed:.3g} CPU s",
        )
        m = len(few[1])
        drawn, _, _ = uniform_curve(folder, n_files, m, penalties)
        compare_draw(bench, case, f"as many rows ({m:,})", drawn, told)
        # Rows whose curve takes as long as the choice and the curve on what was chosen.
        trial = 50_000
        _, _, on_trial = uniform_curve(folder, n_files, trial, penalties)
        size = int(trial * (chosen + on_few) / on_trial)
        drawn, read, taken = uniform_curve(folder, n_files, size, penalties)
        compare_draw(
            bench,
            case,
            f"{size:,} rows, {read:.3g} s to read and {taken:.3g} s",
            drawn,
            told,
        )


def chosen_and_tuned(bench, case, how, folder, penalties):
    """The rows chosen in a process of its own from files or dask arrays, their curve, and the CPU
    seconds of both."""
    out = Path(folder) / f"{how}.npz"
    subprocess.run([sys.executable, __file__, folder, str(out), how], check=True)
    with np.load(out) as found:
        few = found["X"], found["y"], found["w"], found["fold"]
        peak, chosen, told = (float(found[name]) for name in ("peak", "seconds", "error"))
    on_few, told_by_few = seconds_of(lambda: curve(*few, 0.0, penalties))
    bench.value(case, f"{how}: rows", len(few[1]))
    bench.value(case, f"{how}: curve_error_", told, unit="nats")
    bench.value(case, f"{how}: CPU of the choice", chosen, unit="s")
    bench.value(case, f"{how}: CPU of five folds, ten penalties", on_few, unit="s")
    bench.value(case, f"{how}: peak memory of the choice", peak, unit="MiB", bar=1024)
    return few, told_by_few, chosen, on_few


def uniform_curve(folder, n_files, size, penalties):
    """The curve of a uniform draw, and the CPU seconds of reading it and of the curve."""
    read, (X, y) = seconds_of(lambda: uniform_rows(folder, n_files, size))
    fold = np.arange(len(y)) % FOLDS
    taken, drawn = seconds_of(lambda: curve(X, y, np.ones(len(y)), fold, 0.0, penalties, QUICK))
    return drawn, read, taken


def compare_draw(bench, case, what, drawn, told):
    """How far the curve of a uniform draw is from that of the chosen rows."""
    apart = np.abs(drawn - told).max()
    steps = abs(int(drawn.argmin()) - int(told.argmin()))
    bench.value(
        case,
        f"largest distance of the curve of a uniform draw, {what}",
        apart,
        unit=f"nats; best penalty {steps} steps off",
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


def choose(folder, out, how):
    rows = f"{folder}/X*.npy", f"{folder}/y*.npy"
    if how == "dask":
        rows = tuple(lazily(folder, name) for name in "Xy")
    selector = MatchedCoreset(Logistic(), folds=FOLDS, penalties=[1e-4, 1e-1], random_state=0)
    with dask.config.set(scheduler="synchronous"):
        seconds, chosen = seconds_of(lambda: selector.fit(*rows))
        X, y, w, fold = chosen.take(*rows)
    peak = peak_memory()
    error = chosen.curve_error_
    np.savez(out, X=X, y=y, w=w, fold=fold, peak=peak, seconds=seconds, error=error)


def lazily(folder, name):
    """The files of an array, in their order by name, as one dask array."""
    parts = []
    for path in sorted(Path(folder).glob(f"{name}*.npy")):
        like = np.load(path, mmap_mode="r")
        part = dask.delayed(np.load)(path)
        parts.append(da.from_delayed(part, like.shape, like.dtype))
    return da.concatenate(parts)


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
    if len(sys.argv) == 4:
        choose(*sys.argv[1:])
    else:
        main()
