"""Rows of the table: labels by asking, dictionaries, continual learning, data sets, dask, projections, sounds."""

import handful.linalg
import numpy as np
import torch
from handful import UniformCoreset, active, baselines, data, dictionary
from handful.active import audio, loop, mixmatch, supervised
from handful.continual import vcl, views
from handful.data import synthetic
from handful.dictionary import generative

from fuzz.kinds import (
    FAILS,
    MAY_FAIL,
    WORKS,
    Case,
    boolean,
    choice,
    generator,
    integer,
    labels,
    made,
    matrix,
    number,
    same,
    seed,
    vector,
)
from fuzz.throw import call, entry

BY_NAME = {
    "random_state": seed(),
    "rng": generator,
    "verbose": same(False),
    "memory": same(None),
    "size": integer(good=(1, 2)),
    "n": integer(good=(1, 2)),
    "l2": number(above=0, good=(0.01, 1.0)),
    "l1": number(above=0, good=(0.01, 1.0)),
    "tol": number(above=0, good=(1e-3, 1e-2)),
    "max_iter": integer(good=(10, 500)),
    "dtype": choice(np.float64, np.float32),
    "n_steps": integer(good=(1, 2)),
    "batch_size": integer(good=(2, 8)),
    "learning_rate": number(least=0, most=1e8, good=(1e-3, 1e-2)),
    "weight_decay": number(least=0, most=1e8, good=(0.0, 1e-4)),
    "average": number(least=0, most=1, good=(0.9, 0.999)),
    "device": same("cpu"),
    "n_epochs": integer(good=(1, 2)),
    "sampling_rate": integer(8000, 192_000, good=(8000, 16000), names="sampling_rate|sampling rate"),
}


# Asking for labels ----------------------------------------------------------------------------------------------------


def _simplex_rows(world, shape=None):
    P = world.rng.random(shape or (world.n, 3)) + 0.01
    return P / P.sum(axis=-1, keepdims=True)


def predictions(variants=None):
    def kind(world, name, odd):
        P = _simplex_rows(world, (world.n, 3) if variants is None else (variants, world.n, 3))
        if not odd:
            return Case(P)
        if world.rng.random() < 0.3:
            return Case(world.pick([P.tolist(), P.astype(np.float32), torch.as_tensor(P), np.asfortranarray(P)]))
        wrong = [2 * P, -P, P * np.nan, P[..., :1], P[:0], np.full(P.shape, "abc"), None, P + 1j, P[:, :0], P.ravel()]
        return Case(world.pick(wrong), FAILS, "probabilities|abc|[Cc]omplex")

    return kind


def _query(cls, arguments, world):
    options = {
        k: v for k, v in arguments.items() if k in ("n", "features", "probabilities", "labelled", "labels", "n_pool")
    }
    return call(cls, arguments, world).query(**options)


def _check_query(result, arguments, world):
    assert len(np.unique(result)) == len(result) == arguments["n"]
    assert 0 <= result.min() <= result.max() < world.n


def _pool_loop(cls, arguments, world):
    arguments = {**arguments, "propose": lambda labelled, labels, pool, n: pool[:n]}
    asking = call(cls, arguments, world)
    asking.run(lambda i: asking.classes[i % 2], n_rounds=1)
    return asking.labelled


def _pool_size(world):
    return world.cases["n_pool"].value if world.cases["n_pool"].verdict == WORKS else 10


def _other_width(world):
    if np.shape(world.cases["features"].value)[1:] != (world.d,):  # than that of the labelled rows
        world.cases["labelled"] = world.cases["labelled"]._replace(verdict=MAY_FAIL, names="labelled")


def _images(world):
    return world.rng.random((8, 8, 8)).astype(np.float32)


def _network(cls, arguments, world):
    X, y = _images(world), np.arange(8) % 2
    model = call(cls, arguments, world)
    fitted = model.fit(X, np.where(np.arange(8) < 6, y, -1) if cls is mixmatch.MixMatch else y)
    P = fitted.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-3)
    return P


# Data sets ------------------------------------------------------------------------------------------------------------


def _dataset(world):
    return data.Dataset(
        "made",
        world.X,
        world.code,
        None,
        None,
        tuple(f"x{j}" for j in range(world.d)),
        "",
        "",
        "",
        "",
        "",
        of="made",
        published_rows=2 * world.n,
    )


def _parts(cls, arguments, world):
    whole = _dataset(world)
    part = (
        whole.take(arguments["rows"]).only(arguments["classes"])
        if "classes" in arguments
        else whole.take(arguments["rows"])
    )
    return part.X, part.rows, part.share, part.level


def _rows_of(world, name, odd):
    n = world.n
    if not odd:
        return Case(world.pick([np.arange(n), list(range(n)), np.ones(n, bool), np.arange(n)[::-1]]))
    wrong = [
        np.array([n]),
        np.array([-n - 1]),
        np.array([0.5]),
        np.ones(n + 1, bool),
        "abc",
        None,
        np.zeros((2, 2), int),
    ]
    return Case(world.pick(wrong), FAILS, "rows")


def _standardised(function, arguments, world):
    other = {k: v for k, v in arguments.items() if k in ("dtype", "order")}
    X, same_again = function(arguments["X"], arguments["X"], **other)
    assert np.array_equal(X, same_again)
    assert np.abs(X.mean(axis=0)).max() < 1e-3
    assert np.abs(X).max() <= np.sqrt(len(X)) * 1.001
    return X


def _split(function, arguments, world):
    whole = arguments["data"]
    rest = {k: v for k, v in arguments.items() if k not in ("data",)}
    part = function(whole, **rest)
    return part.X, part.X_test


def _name(good):
    def kind(world, name, odd):
        if not odd:
            return Case(world.pick(good))
        return Case(
            world.pick(["no such set", "../htru2", "", None, 3, ["digits"], "digits\0"]),
            FAILS,
            "data set|name|str|known|NoneType|hashable",
        )

    return kind


# Sounds ---------------------------------------------------------------------------------------------------------------


def _sound(world, name, odd):
    good = world.rng.uniform(-0.5, 0.5, size=4000)
    if not odd:
        return Case(good)
    if world.rng.random() < 0.4:
        return Case(world.pick([good.astype(np.float32), good[None], np.zeros_like(good), good[::2]]))
    return Case(world.pick([good * np.nan, good[:0], None, "abc", good + 1j]), FAILS, "sound|recording|str|[Cc]omplex")


def _recordings(world, name, odd):
    good = [world.rng.uniform(-0.5, 0.5, size=9000) for _ in range(2)]
    if not odd:
        return Case(good)
    if world.rng.random() < 0.4:
        return Case(
            world.pick(
                [np.stack(good), [g.astype(np.float32) for g in good], [(g * 32767).astype(np.int16) for g in good]]
            )
        )
    return Case(
        world.pick([[], [good[0][:0]], [good[0] * np.nan], [good[0] * 100], [good[0][:, None]], None]),
        FAILS,
        "recording",
    )


def _vcl(cls, arguments, world):
    model = call(cls, arguments, world)
    model.add_task(arguments["X"], arguments["y"])
    return model.predict_proba(world.X.astype(np.float32)) if np.shape(arguments["X"])[1:] == (world.d,) else 0


def _dictionary(cls, arguments, world):
    options = {
        **arguments,
        "size": min(arguments["size"], 1)
        if isinstance(arguments["size"], int) and arguments["size"] > 0 and arguments["size"] is not True
        else arguments["size"],
    }
    model = call(cls, options, world).fit(arguments["X"])
    return model.inverse_transform(model.transform(arguments["X"]))


def _recovery(cls, arguments, world):
    recovery = call(cls, arguments, world)
    return dictionary.recovery_error(recovery, np.eye(world.d)[:1], world.X)


def _vae(function, arguments, world):
    rows = np.clip(np.abs(world.X), 0, 1).astype(np.float32)
    vae = function(rows, **{k: v for k, v in arguments.items() if k != "X"})
    return [p.detach() for p in vae.parameters()]


def _latent(world, name, odd):
    return (
        integer(good=(2,))(world, name, odd)._replace(value=2)
        if not odd
        else Case(world.pick([0, None, "2", 1.5, True]), FAILS, name)
    )


def _torch_generator(world, name, odd):
    return generator(world, name, True) if odd else Case(torch.Generator().manual_seed(0))


def _sides(world, name, odd):
    if not odd:
        return Case(world.pick([(2, 2), (4, 8)]))
    return Case(
        world.pick([(3, 4), (0, 4), (2.0, 2), "ab", None, 4, (2, 2, 2), (-2, 2)]), FAILS, "shape|image|halved|side"
    )


def _vector_of(world):
    return world.rng.normal(size=world.d) * world.pick([1.0, 1e17, 1e-300])


def _check_simplex(result, arguments, world):
    z = float(arguments.get("z", 1.0))
    assert (result >= 0).all()
    assert abs(result.sum() - z) <= 1e-12 * max(1, z) * len(result)
    if "gamma" in arguments:
        assert result[-1] >= arguments["gamma"] - 1e-12


def entries():
    plain = dict(most_rows=12)
    any_length = vector(_vector_of, length=None)
    rows = {
        # labels
        "handful.active.UniformQuery": entry(
            active.UniformQuery,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=_number_of_points,
            n_pool=made(lambda w: w.n),
        ),
        "handful.active.MaxEntropyQuery": entry(
            active.MaxEntropyQuery,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=_number_of_points,
            probabilities=predictions(),
        ),
        "handful.active.Consistency": entry(
            active.Consistency,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=_number_of_points,
            probabilities=predictions(3),
        ),
        "handful.active.KCenterQuery": entry(
            active.KCenterQuery, BY_NAME, run=_query, check=_check_query, n=_number_of_points, features=_features
        ),
        "handful.active.KMeansQuery": entry(
            active.KMeansQuery,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=_number_of_points,
            features=_features,
            n_init=integer(good=(1, 2)),
        ),
        "handful.active.Badge": entry(
            active.Badge,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=_number_of_points,
            features=_features,
            probabilities=predictions(),
        ),
        "handful.active.BilevelQuery": entry(
            active.BilevelQuery,
            BY_NAME,
            run=_query,
            check=_check_query,
            n=integer(1, lambda w: w.n, good=(1, 2)),
            features=_features,
            probabilities=predictions(),
            labelled=made(lambda w: w.X[:4]),
            labels=made(lambda w: np.arange(min(4, w.n)) % 3),
            variants=same(None),
            adjust=_other_width,
            ihvp=choice("auto", names="ihvp"),
        ),
        "handful.active.ActiveLoop": entry(
            loop.ActiveLoop,
            BY_NAME,
            run=_pool_loop,
            propose=same(None),
            n_pool=integer(good=(10, 12)),
            classes=_classes,
            batch_size=integer(1, _pool_size),
            path=same(None),
        ),
        "handful.active.mixmatch.MixMatch": entry(
            mixmatch.MixMatch,
            BY_NAME,
            run=_network,
            network=choice("conv", names="network"),
            n_augmentations=integer(good=(1, 2)),
            temperature=number(least=0.05),
            alpha=number(above=0),
            weight=number(least=0),
            ramp_up=number(least=0, most=1),
            align=boolean(),
            **plain,
        ),
        "handful.active.supervised.SupervisedNetwork": entry(
            supervised.SupervisedNetwork, BY_NAME, run=_network, network=choice("conv", names="network"), **plain
        ),
        "handful.baselines.farthest_first": entry(
            baselines.farthest_first, BY_NAME, X=matrix(True), n=_number_of_points, covered=same(()), check=_check_query
        ),
        "handful.baselines.forgetting_events": entry(
            baselines.forgetting_events,
            BY_NAME,
            correct=_correct,
            run=lambda f, a, w: np.nan_to_num(call(f, a, w), posinf=-1),
        ),
        "handful.baselines.prediction_entropies": entry(
            baselines.prediction_entropies, BY_NAME, probabilities=predictions()
        ),
        # sounds
        "handful.active.audio.prepare": entry(
            audio.prepare,
            BY_NAME,
            recordings=_recordings,
            target_rate=number(least=4000, most=192_000, good=(8000.0, 16000.0), names="target_rate|rate"),
            sampling_rate=number(least=4000, most=192_000, good=(8000.0, 16000.0), names="sampling_rate|rate"),
            seconds=number(above=0, good=(0.5, 1.0)),
        ),
        "handful.active.audio.audible": entry(
            audio.audible, BY_NAME, recordings=made(lambda w: w.rng.normal(size=(2, 8000)))
        ),
        "handful.active.audio.mel_spectrogram": entry(
            audio.mel_spectrogram,
            BY_NAME,
            sound=_sound,
            window=number(above=0, good=(0.128,)),
            hop=number(above=0, good=(0.032,)),
            n_bins=integer(good=(16, 32)),
            span=number(above=0, good=(50.0,)),
            sampling_rate=same(8000, 16000),
        ),
        "handful.active.audio.augment": entry(
            audio.augment,
            BY_NAME,
            sound=made(lambda w: w.rng.uniform(-0.5, 0.5, size=(2, 8000))),
            sampling_rate=same(8000),
            noise=made(lambda w: w.rng.uniform(-0.5, 0.5, size=(2, 8000))),
            chance=number(least=0, most=1),
        ),
        "handful.active.audio.background_noise": entry(
            audio.background_noise,
            BY_NAME,
            n_segments=integer(),
            n_samples=integer(good=(100, 8000)),
            sampling_rate=same(8000, 16000),
        ),
        # continual
        "handful.continual.vcl.VCL": entry(
            vcl.VCL,
            BY_NAME,
            run=_vcl,
            selector=choice(None, UniformCoreset(), names="selector|fit"),
            n_kept=integer(good=(1,)),
            n_classes=integer(2, good=(2, 3)),
            hidden=same((4,), (4, 4)),
            prior_sd=number(above=0),
            start_sd=number(above=0, good=(0.05,)),
            kl_weight=number(above=0, most=1e8),
            n_coreset_epochs=integer(good=(1, 2)),
            n_draws=integer(good=(1, 2)),
            X=matrix(
                without="3-d csr csr_array csc_float32 empty_csr",
                may="1e10 1e30 1e30_float32 big_offset big_offset_float32",
            ),
            y=labels(False, True, True),
            adjust=_vcl_adjust,
            learning_rate=number(above=0, most=1e8, good=(1e-3,)),
            batch_size=integer(good=(2, 8)),
        ),
        "handful.continual.views.network_views": entry(
            views.network_views,
            BY_NAME,
            model=made(lambda w: torch.nn.Sequential(torch.nn.Linear(w.d, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))),
            X=made(lambda w: w.X.astype(np.float32)),
            y=same(None),
            head=same(None),
            batch_size=integer(good=(1, 1000)),
        ),
        # data
        "handful.data.Dataset": entry(
            data.Dataset,
            BY_NAME,
            run=_parts,
            rows=_rows_of,
            classes=_some_classes,
            without=_FIELDS,
            **dict.fromkeys(_FIELDS),
        ),
        "handful.data.data_folder": entry(data.data_folder, BY_NAME),
        "handful.data.status": entry(data.status, BY_NAME),
        "handful.data.fingerprint": entry(data.fingerprint, BY_NAME, name=_name(["digits"])),
        "handful.data.load": entry(
            data.load,
            BY_NAME,
            name=_name(["digits", "breast_cancer"]),
            classes=same(None),
            run=lambda f, a, w: f(a["name"]).X,
        ),
        "handful.data.verify": entry(
            data.verify, BY_NAME, names=_names_of_sets, run=lambda f, a, w: f(a.get("names", ["phishing"]))
        ),  # all of them take seconds to read
        "handful.data.level": entry(
            data.level,
            BY_NAME,
            of=same("covtype"),
            rows=integer(0, good=(0, 5)),
            published_rows=integer(1, good=(5, 10), none=True),
        ),
        "handful.data.split": entry(
            data.split, BY_NAME, run=_split, data=_data, test_size=_test_size, official=boolean(), adjust=_split_adjust
        ),
        "handful.data.standardise": entry(
            data.standardise,
            BY_NAME,
            run=_standardised,
            X=matrix(may="float16 1e300 tiny tiny_float32 denormal"),
            order=choice("C", "F"),
            dtype=choice(np.float64, np.float32, names="dtype|data type|understood|interpret"),
        ),
        "handful.data.zero_one": entry(
            data.zero_one, BY_NAME, y=labels(without="too_long complex huge"), positive=same(None), adjust=_positive
        ),
        "handful.data.synthetic.pathological": entry(
            synthetic.pathological,
            BY_NAME,
            n=integer(4, good=(4, 10)),
            separation=number(least=0),
            spread=number(least=0),
            gap=number(least=0),
        ),
        "handful.data.synthetic.gaussian_mixture": entry(
            synthetic.gaussian_mixture,
            BY_NAME,
            n=integer(good=(5, 10)),
            n_features=integer(),
            n_components=integer(),
            overlap=number(least=0),
            imbalance=number(least=0.1, none=True),
            tail=number(least=0.1, good=(3.0,), none=True),
            dtype=choice(np.float64, np.float32, names="dtype|data type|understood|interpret"),
        ),
        "handful.data.synthetic.image_patches": entry(
            synthetic.image_patches, BY_NAME, image=_image, size=integer(1, 5, good=(1, 2)), stride=integer()
        ),
        "handful.data.synthetic.spoken_tones": entry(
            synthetic.spoken_tones,
            BY_NAME,
            n=integer(2, good=(2, 3)),
            n_classes=integer(2, _as_many, good=(2,)),
            sampling_rate=integer(8000, 192_000, good=(8000,)),
        ),
        # dictionaries
        "handful.dictionary.MeasurementSelector": entry(
            dictionary.MeasurementSelector,
            BY_NAME,
            run=_dictionary,
            X=matrix(may="big_offset big_offset_float32 1e10"),
            atoms=same(None),
            recovery=choice(None, dictionary.L2(), dictionary.L1(), names="recovery|Recovery"),
            rule=choice("linear", "quadratic"),
            size=integer(),
        ),
        "handful.dictionary.L1": entry(dictionary.L1, BY_NAME, run=_recovery, damping=number(above=0, none=True)),
        "handful.dictionary.L2": entry(dictionary.L2, BY_NAME, run=_recovery),
        "handful.dictionary.approximate_greedy": entry(
            dictionary.approximate_greedy, BY_NAME, X=matrix(), atoms=_atoms, size=integer(1, lambda w: w.d, good=(1,))
        ),
        "handful.dictionary.gaussian_atoms": entry(
            dictionary.gaussian_atoms,
            BY_NAME,
            m=integer(),
            d=integer(),
            dtype=choice(np.float64, np.float32, names="dtype|data type|understood|interpret"),
        ),
        "handful.dictionary.recovery_error": entry(
            dictionary.recovery_error,
            BY_NAME,
            X=matrix(may="1e10"),
            A=_atoms,
            recovery=choice(dictionary.L2(), dictionary.L1(), names="recovery|Recovery"),
        ),
        "handful.dictionary.wavelet_atoms": entry(
            dictionary.wavelet_atoms,
            BY_NAME,
            shape=_sides,
            wavelet=choice("db1", names="wavelet"),
            level=same(None),
            dtype=choice(np.float64, np.float32, names="dtype|data type|understood|interpret"),
        ),
        "handful.dictionary.generative.train_vae": entry(
            generative.train_vae,
            BY_NAME,
            run=_vae,
            X=same(None),
            rng=_torch_generator,
            latent=integer(good=(2,)),
            hidden=integer(good=(4,)),
            learning_rate=number(above=0, most=1e8, good=(1e-3,)),
        ),
        "handful.dictionary.generative.Generative": entry(
            generative.Generative,
            BY_NAME,
            generator=made(lambda w: torch.nn.Linear(2, w.d)),
            latent=_latent,
            l2=number(above=0, most=1e8, good=(0.01, 1.0)),
            max_iter=integer(good=(2, 5)),
            run=_recovery,
        ),
        # projections
        "handful.linalg.project_simplex": entry(
            handful.linalg.project_simplex,
            BY_NAME,
            check=_check_simplex,
            w=any_length,
            z=number(least=0, good=(0.5, 1.0)),
        ),
        "handful.linalg.project_restricted_simplex": entry(
            handful.linalg.project_restricted_simplex,
            BY_NAME,
            check=_check_simplex,
            w=any_length,
            gamma=number(least=0, most=1, good=(0.1, 1.0)),
        ),
    }
    return rows


_FIELDS = (
    "name",
    "X",
    "y",
    "X_test",
    "y_test",
    "feature_names",
    "title",
    "source",
    "licence",
    "citation",
    "sha256",
    "notes",
    "positive",
    "extra",
    "kind",
    "of",
    "published_rows",
)


def _some_classes(world, name, odd):
    if not odd:
        return Case(world.pick([[0, 1], (1, 0), [1], np.array([0, 1])]))
    return Case(world.pick([[7], [0, 0], [], None, 3, ["a"]]), FAILS, "classes")


def _classes(world, name, odd):
    if not odd:
        return Case(world.pick(["ab", [0, 1], ("x", "y", "z")]))
    return Case(world.pick([[], "a", [1, 1], None, 5, [[1], [2]]]), FAILS, "classes")


def _number_of_points(world, name, odd):
    return integer(1, lambda w: w.n, good=(1, 2))(world, name, odd)


def _features(world, name, odd):
    return matrix(may="1e10", offset=MAY_FAIL)(world, name, odd)


def _correct(world, name, odd):
    good = world.rng.random((4, world.n)) < 0.5
    if not odd:
        return Case(good)
    if world.rng.random() < 0.4:
        return Case(world.pick([good.tolist(), good.astype(int), np.asfortranarray(good)]))
    return Case(world.pick([good[0], None, good[:0], good * np.nan, good.astype(str), 3]), FAILS, "correct|str")


def _data(world, name, odd):
    if odd:
        return Case(world.pick([None, world.X, "digits"]), FAILS, "data")
    return Case(_dataset(world))


def _test_size(world, name, odd):
    return (
        number(above=0, good=(0.5,))(world, name, odd)
        if not odd or world.rng.random() < 0.7
        else Case(1.5, FAILS, name)
    )


def _as_many(world):
    n = world.cases["n"]
    return n.value if n.verdict == WORKS else 2


def _split_adjust(world):
    size = world.cases["test_size"]
    if world.n < 6:  # too few of a class for both halves
        names = "test_size|class|least populated"
        world.cases["test_size"] = size._replace(verdict=max(size.verdict, MAY_FAIL), names=names)


def _positive(world):
    y = world.cases["y"]
    may = MAY_FAIL if world.n == 2 else 0  # any two numbers are two labels
    world.cases["y"] = y._replace(names=f"{y.names}|positive", verdict=may or y.verdict)


def _names_of_sets(world, name, odd):
    if not odd:
        return Case(world.pick([["phishing"]]))
    return Case(world.pick([["no such set"], [3], 5, ["digits"]]), FAILS, "data set|name|known|no file")


def _image(world, name, odd):
    good = world.rng.random((6, 5))
    if not odd:
        return Case(world.pick([good, good[..., None], (255 * good).astype(np.uint8)]))
    return Case(world.pick([good[0], None, 3, good[:0], good[..., None, None]]), FAILS, "image|size")


def _atoms(world, name, odd):
    X = world.cases["X"].value
    d = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else len(X[0]) if isinstance(X, list) else world.d
    good = np.eye(max(d, 1))
    if not odd:
        return Case(good)
    return Case(
        world.pick([good[0], good * np.nan, np.eye(d + 1), np.full(good.shape, "abc"), None]),
        FAILS,
        rf"\b{name}\b|abc|atoms",
    )


def _vcl_adjust(world):
    y = world.cases["y"]
    world.cases["y"] = y._replace(
        verdict=max(y.verdict, WORKS if y.value is world.code else MAY_FAIL), names=y.names + "|label|y"
    )
