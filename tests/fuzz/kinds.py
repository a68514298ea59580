"""Arguments of every kind, good and odd: each comes with the verdict that it deserves."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

WORKS, MAY_FAIL, FAILS = range(3)
SCALE = "scale|large|larger|magnitude|overflow|far from|finite|hold"  # how an error about sizes of numbers may put it


class Case(NamedTuple):
    """A value for one argument; `verdict` says whether it must work, and `names` what an error about it says."""

    value: object
    verdict: int = WORKS
    names: str = ""


class World:
    """What the arguments of one input share: numbers of rows and columns, rows, two classes, and a generator."""

    def __init__(self, rng, most_rows=30):
        self.rng = rng
        self.n, self.d = int(rng.integers(2, most_rows)), int(rng.integers(1, 12))
        self.X = rng.normal(size=(self.n, self.d))
        self.code = rng.permutation(np.arange(self.n) % 2)
        self.cases = {}  # of the arguments made so far, by name

    def pick(self, values):
        """One of `values`, whatever they are."""
        return values[int(self.rng.integers(len(values)))]

    def odd(self, name):
        """Whether the case of an argument made before is an odd one that may fail."""
        return name in self.cases and self.cases[name].verdict != WORKS


# Scalars: each function gives a kind, ``kind(world, name, odd) -> Case`` -----------------------------------------------


def same(*values):
    """Good values only."""
    return lambda world, name, odd: Case(world.pick(values))


def made(function):
    """What `function(world)` gives."""
    return lambda world, name, odd: Case(function(world))


def choice(*values, names=None):
    """One of a few names, or other objects; anything else must be refused."""

    def kind(world, name, odd):
        if not odd:
            return Case(world.pick(values))
        wrong = [v for v in ("nonsense", 17, 2.5, b"bytes", object(), [], ["a"], None) if not _in(v, values)]
        return Case(world.pick(wrong), FAILS, names or name)

    return kind


def _in(value, values):
    return any(value is v or (type(value) is type(v) and value == v) for v in values)


def integer(least=1, most=None, good=(1, 2, 3), none=False, names=None):
    """An integer of at least `least`, and at most `most`, a number or ``most(world)``."""

    def kind(world, name, odd):
        top = most(world) if callable(most) else most
        allowed = [value for value in good if top is None or value is None or value <= top] or [least]
        if not odd:
            return Case(world.pick(allowed + [None] * none))
        wrong = [least - 1, -(10**6), True, float(allowed[0] or least), "5", float("nan"), float("inf"), 1j, [2], {}]
        wrong += [] if none else [None]
        wrong += [] if top is None else [top + 1, 10**9]
        if world.rng.random() < 0.2:
            return Case(np.int64(allowed[0] or least))
        return Case(world.pick(wrong), FAILS, names or name)

    return kind


def number(above=None, least=None, below=None, most=None, good=(0.5, 1.0), none=False, names=None):
    """A real number within limits."""

    def kind(world, name, odd):
        if not odd:
            return Case(world.pick([*good] + [None] * none))
        if world.rng.random() < 0.3:
            return Case(world.pick([np.float32(good[0]), np.float64(good[-1]), good[0]]))
        if world.rng.random() < 0.2:
            far = [
                v
                for v in (1e300, 1e160, 1e45, 1e30, 1e-30, 1e-45, 1e-160, 1e-300)
                if _within(v, above, least, below, most)
            ]
            return Case(world.pick(far), MAY_FAIL, names or name) if far else Case(good[0])
        wrong = [float("nan"), float("inf"), -float("inf"), "0.5", 1j, [0.5], np.array([0.5, 0.5]), object()]
        wrong += [] if none else [None]
        wrong += [above, above - 1] if above is not None else []
        wrong += [least - 1, least - 1e-3] if least is not None else []
        wrong += [below, below + 1] if below is not None else []
        wrong += [most + 1, most + 1e-3] if most is not None else []
        return Case(world.pick(wrong), FAILS, names or name)

    return kind


def _within(value, above, least, below, most):
    over = (above is None or value > above) and (least is None or value >= least)
    return over and (below is None or value < below) and (most is None or value <= most)


def boolean(default=False):
    return same(True, False)


def seed():
    """`random_state` of any kind."""

    def kind(world, name, odd):
        number = int(world.rng.integers(2**31))
        if odd and world.rng.random() < 0.5:
            return Case(world.pick([-1, "a", 1.5, True, [3], 1j, object()]), FAILS, name)
        make = [int, np.int64, np.random.default_rng, np.random.RandomState, lambda s: s + 2**40]
        return Case(world.pick(make)(number))

    return kind


def generator(world, name, odd):
    """`rng`: a Generator, and nothing else."""
    if odd:
        return Case(world.pick([None, 0, np.random.RandomState(0), "a", np.random]), FAILS, name)
    return Case(np.random.default_rng(int(world.rng.integers(2**32))))


# Arrays ---------------------------------------------------------------------------------------------------------------

X_KINDS = """float32 float16 longdouble int int8 bool object fortran fortran_float32 not_contiguous reversed read-only
big-endian list frame csr csr_array csc_float32 empty_csr one_feature duplicates all_zero two_values constant_feature
big_offset big_offset_float32 uneven_scales denormal tiny tiny_float32 1e10 1e30 1e30_float32 1e300 one_huge_value nan inf
-inf complex strings object_strings objects None 1-d 3-d 0-d no_rows no_columns"""
UNREAD = ("nan", "inf", "-inf", "strings", "object strings", "objects")  # pass where the values are not looked at


def kinds(names):
    return [name.replace("_", " ") for name in names.split()]


def matrix(takes_sparse=False, *, of=None, without="", offset=WORKS, may="", reads=True):
    """Rows X, or ``of(world)``; `without` names kinds that do not apply, `may` those that may fail as well."""
    wanted = [kind for kind in kinds(X_KINDS) if kind not in kinds(without)]

    def kind(world, name, odd):
        X = world.X if of is None else of(world)
        if not odd:
            return Case(X)
        chosen = world.pick(wanted)
        case = odd_matrix(chosen, X, world.rng, takes_sparse, offset)
        if chosen in kinds(may):
            case = case._replace(verdict=max(case.verdict, MAY_FAIL))
        if not reads and chosen in UNREAD:
            return Case(case.value)
        return case._replace(names="|".join(filter(None, [case.names, rf"\b{name}\b"])))

    return kind


def odd_matrix(kind, X, rng, takes_sparse=False, offset=WORKS):
    n, d = X.shape
    row, column = rng.integers(n), rng.integers(d)
    with_value = X.copy()
    read_only = X.copy(order=rng.choice(["C", "F"]))
    read_only.flags.writeable = False
    strided = np.zeros((2 * n, 2 * d))
    strided[::2, ::2] = X
    if kind in ("nan", "inf", "-inf"):
        with_value[row, column] = float(kind)
        return Case(with_value, FAILS, "NaN|finite" if kind == "nan" else "infinity|finite")
    if kind == "csr":
        return Case(sparse.csr_matrix(X * (X > 0)), WORKS if takes_sparse else FAILS, "[Ss]parse")
    return {
        "float32": lambda: Case(X.astype(np.float32)),
        "float16": lambda: Case(X.astype(np.float16)),
        "longdouble": lambda: Case(X.astype(np.longdouble)),
        "int": lambda: Case(np.rint(5 * X).astype(int)),
        "int8": lambda: Case(np.rint(5 * X).astype(np.int8)),
        "bool": lambda: Case(X > 0),
        "object": lambda: Case(X.astype(object)),
        "fortran": lambda: Case(np.asfortranarray(X)),
        "fortran float32": lambda: Case(np.asfortranarray(X, dtype=np.float32)),
        "not contiguous": lambda: Case(strided[::2, ::2]),
        "reversed": lambda: Case(np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]),
        "read-only": lambda: Case(read_only),
        "big-endian": lambda: Case(X.astype(">f8")),
        "list": lambda: Case(X.tolist()),
        "frame": lambda: Case(pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])),
        "csr array": lambda: odd_matrix("csr", X, rng, takes_sparse)._replace(value=sparse.csr_array(X * (X > 0))),
        "csc float32": lambda: odd_matrix("csr", X, rng, takes_sparse)._replace(
            value=sparse.csc_matrix(X.astype(np.float32))
        ),
        "empty csr": lambda: odd_matrix("csr", X, rng, takes_sparse)._replace(value=sparse.csr_matrix((n, d))),
        "one feature": lambda: Case(X[:, :1]),
        "duplicates": lambda: Case(np.repeat(X[:1], n, axis=0)),
        "all zero": lambda: Case(np.zeros_like(X)),
        "two values": lambda: Case(X[rng.integers(min(2, n), size=n)]),
        "constant feature": lambda: Case(np.column_stack([X, np.full(n, 3.0)])),
        # whether 1e12 beside a penalty of 1e-3 is singular to rounding depends on the processor's order of sums
        "big offset": lambda: Case(X + 1e6, offset, "singular to rounding|not solved"),
        "big offset float32": lambda: Case((X + 1e5).astype(np.float32), offset, "singular to rounding|not solved"),
        "uneven scales": lambda: Case(X * 10.0 ** rng.integers(-6, 4, d)),
        "denormal": lambda: Case(X * 1e-310),
        "tiny": lambda: Case(X * 1e-200),
        "tiny float32": lambda: Case((X * 1e-40).astype(np.float32)),
        # the squares of such values overflow or vanish in sums with others
        "1e10": lambda: Case(X * 1e10, MAY_FAIL, SCALE),
        "1e30": lambda: Case(X * 1e30, MAY_FAIL, SCALE),
        "1e30 float32": lambda: Case((X * 1e30).astype(np.float32), MAY_FAIL, SCALE),
        "1e300": lambda: Case(X * 1e300, MAY_FAIL, SCALE),
        "one huge value": lambda: Case(np.where(np.arange(n)[:, None] == row, 1e300, X), MAY_FAIL, SCALE),
        "complex": lambda: Case(X + 1j, FAILS, "[Cc]omplex|real numbers"),
        "strings": lambda: Case(np.full((n, d), "abc"), FAILS, "abc|str|numbers"),
        "object strings": lambda: Case(np.full((n, d), "abc", dtype=object), FAILS, "abc|str|numbers"),
        "objects": lambda: Case(np.array([[object()] * d] * n), FAILS, "object|numbers"),
        "None": lambda: Case(None, FAILS, "2D array|2-d"),
        "1-d": lambda: Case(X[:, 0], FAILS, "2D array|2-d|shape"),
        "3-d": lambda: Case(X[:, :, None], FAILS, "dim 3|2-d|shape"),
        "0-d": lambda: Case(np.float64(3), FAILS, "2D array|[Ss]calar|2-d|shape"),
        "no rows": lambda: Case(X[:0], FAILS, r"0 sample\(s\)|at least 1 row|empty"),
        "no columns": lambda: Case(X[:, :0], FAILS, r"0 feature\(s\)"),
    }[kind]()


VECTOR_KINDS = """int float32 float16 object list series read-only strided big-endian all_zero 1e300 1e160 1e-160 1e-300
nan inf complex strings None 2-d 0-d too_short empty"""


def vector(of, *, least=None, length="rows", without="", names=None):
    """One float a row: ``of(world)``; `least`: smaller entries must be refused. None as `length`: any length is fine."""
    wanted = [kind for kind in [*kinds(VECTOR_KINDS), *(["negative"] if least is not None else [])]]
    wanted = [kind for kind in wanted if kind not in kinds(without)]

    def kind(world, name, odd):
        v = np.asarray(of(world), dtype=np.float64)
        if not odd:
            return Case(v)
        case = odd_vector(world.pick(wanted), v, world.rng, name, least, length)
        return case._replace(names=f"{case.names}|{names}") if names and case.verdict != WORKS else case

    return kind


def odd_vector(kind, v, rng, name, least, length):
    n = len(v)
    with_value = v.copy()
    strided = np.zeros(2 * n)
    strided[::2] = v
    read_only = v.copy()
    read_only.flags.writeable = False
    names = rf"\b{name}\b"
    if kind in ("1e300", "1e160", "1e-160", "1e-300"):
        with np.errstate(over="ignore"):
            return Case(v * float(kind), MAY_FAIL, f"{names}|{SCALE}")
    if kind in ("nan", "inf", "negative"):
        with_value[rng.integers(n)] = least - 1 if kind == "negative" else float(kind)
        return Case(with_value, FAILS, names)
    return {
        "int": lambda: Case(np.ceil(v).astype(int)),
        "float32": lambda: Case(v.astype(np.float32)),
        "float16": lambda: _in_half(v, names),
        "object": lambda: Case(v.astype(object)),
        "list": lambda: Case(v.tolist()),
        "series": lambda: Case(pd.Series(v, index=np.arange(n) + 7)),
        "read-only": lambda: Case(read_only),
        "strided": lambda: Case(strided[::2]),
        "big-endian": lambda: Case(v.astype(">f8")),
        "all zero": lambda: Case(np.zeros(n), MAY_FAIL, names),
        "complex": lambda: Case(v + 1j, FAILS, f"[Cc]omplex|{names}"),
        "strings": lambda: Case(np.full(n, "abc"), FAILS, f"abc|{names}"),
        "None": lambda: Case(None, FAILS, names),
        "2-d": lambda: Case(np.column_stack([v, v]), FAILS, names),
        "0-d": lambda: Case(2.0, FAILS, names),
        "too short": lambda: Case(v[:-1], WORKS if length is None and n > 1 else FAILS, names),
        "empty": lambda: Case(v[:0], FAILS, f"{names}|empty"),
    }[kind]()


def _in_half(v, names):
    with np.errstate(over="ignore"):
        half = v.astype(np.float16)
    return Case(half) if np.isfinite(half).all() else Case(half, FAILS, names)


Y_KINDS = """signs strings object_strings bool int8 float32 list series column None one_class three_classes real huge mixed
two_columns too_long complex nan inf"""


def labels(two_classes=True, needed=True, classifier=True, without=""):
    """Two classes y. `two_classes`: neither fewer nor more are allowed; not `needed`: the thing may not look at y."""

    def kind(world, name, odd):
        code, rng = world.code, world.rng
        if not odd:
            return Case(code)
        two = two_classes(world) if callable(two_classes) else two_classes
        wanted = [kind for kind in kinds(Y_KINDS) if kind not in kinds(without)]
        case = odd_labels(world.pick(wanted), code, rng, two, needed, classifier)
        return case._replace(names="|".join(filter(None, [case.names, rf"\b{name}\b"])))

    return kind


def odd_labels(kind, code, rng, two_classes, needed, classifier):
    n = len(code)
    fails = FAILS if needed else MAY_FAIL
    classes = FAILS if needed and two_classes else MAY_FAIL
    words = WORKS if two_classes or classifier or not needed else FAILS
    if kind in ("nan", "inf"):
        value = code.astype(float)
        value[rng.integers(n)] = float(kind)
        return Case(value, fails, "NaN|infinity|finite")
    return {
        "signs": lambda: Case(2.0 * code - 1),
        "strings": lambda: Case(np.where(code, "ham", "spam"), words, "numeric|ham|Unknown label"),
        "object strings": lambda: Case(
            np.where(code, "ham", "spam").astype(object), words, "numeric|ham|Unknown label"
        ),
        "bool": lambda: Case(code > 0),
        "int8": lambda: Case(code.astype(np.int8)),
        "float32": lambda: Case(code.astype(np.float32)),
        "list": lambda: Case(code.tolist()),
        "series": lambda: Case(pd.Series(code, index=np.arange(n) + 7)),
        "column": lambda: Case(code[:, None], MAY_FAIL),
        "None": lambda: Case(None, FAILS if needed else WORKS, "y is None|y to be passed"),
        "one class": lambda: Case(np.ones(n, int), classes, "class"),
        "three classes": lambda: Case(np.arange(n) % 3, classes if n > 2 else MAY_FAIL, "class|label"),
        "real": lambda: Case(rng.normal(size=n), classes, "class|label"),
        "huge": lambda: Case(code * 1e300, MAY_FAIL, f"{SCALE}|label"),
        "mixed": lambda: Case(np.array([1, "a"] * n, dtype=object)[:n], fails, "type|str|numeric|label"),
        "two columns": lambda: Case(np.column_stack([code, code]), fails, "1d array|soft targets|shape"),
        "too long": lambda: Case(np.append(code, 1), FAILS, "inconsistent numbers of samples|shape"),
        "complex": lambda: Case(code + 1j, fails, "[Cc]omplex"),
    }[kind]()


WEIGHT_KINDS = """plain some_zero int bool float32 list series uneven 1e30 1e-30 1e308 1e-310 all_zero too_short two_columns
scalar strings complex nan inf -1"""


def weights(world, name, odd):
    """`sample_weight`, or None."""
    n, rng = world.n, world.rng
    w = rng.exponential(size=n) + 0.1
    if not odd:
        return Case(None if rng.random() < 0.7 else w)
    kind = world.pick(kinds(WEIGHT_KINDS))
    if kind == "some zero":
        zero = np.arange(n) % 4 == 3
        one_class = len(set(world.code[~zero])) < 2
        return Case(np.where(zero, 0.0, w), MAY_FAIL if one_class else WORKS, "class|same label")
    return odd_weight(kind, w, rng)._replace()


def odd_weight(kind, w, rng):
    n = len(w)
    with_value = w.copy()
    if kind in ("nan", "inf", "-1"):
        with_value[rng.integers(n)] = float(kind)
        return Case(with_value, FAILS, {"nan": "NaN", "inf": "infinity", "-1": "negative"}[kind])
    extreme = "sample_weight|sum of the weights"
    return {
        "plain": lambda: Case(w),
        "int": lambda: Case(rng.integers(1, 5, n)),
        "bool": lambda: Case(np.ones(n, bool)),
        "float32": lambda: Case(w.astype(np.float32)),
        "list": lambda: Case(w.tolist()),
        "series": lambda: Case(pd.Series(w)),
        "uneven": lambda: Case(10.0 ** rng.uniform(-6, 6, n)),
        "1e30": lambda: Case(w * 1e30),
        "1e-30": lambda: Case(w * 1e-30),
        "1e308": lambda: Case(np.full(n, 1e308), MAY_FAIL, extreme),
        "1e-310": lambda: Case(w * 1e-310, MAY_FAIL, extreme),
        "all zero": lambda: Case(np.zeros(n), FAILS, "zero for all"),
        "too short": lambda: Case(w[:-1], FAILS, "sample_weight"),
        "two columns": lambda: Case(np.column_stack([w, w]), FAILS, "sample_weight"),
        "scalar": lambda: Case(2.0, FAILS, "sample_weight|[Ss]calar|0-dim"),
        "strings": lambda: Case(["abc"] * n, FAILS, "abc|str"),
        "complex": lambda: Case(w + 1j, FAILS, "[Cc]omplex"),
    }[kind]()


def size(repeats=False, least=1):
    """How many rows to choose; more than there are of positive weight only where draws repeat."""

    def kind(world, name, odd):
        w = world.cases.get("sample_weight", Case(None)).value
        n = world.n
        if isinstance(w, np.ndarray) and w.shape == (n,) and w.dtype.kind == "f":
            n = max(1, int((w > 0).sum()))
        if not odd:
            return Case(world.pick([min(2, n), max(min(2, n), n // 2), n, np.int64(min(2, n))]))
        if n == 1 or world.rng.random() < 0.15:
            return Case(1, MAY_FAIL if least > 1 else WORKS, "size must be at least 2")
        wrong = [0, -3, True, 2.0, "5", None]
        if not repeats and world.rng.random() < 0.3:
            return Case(world.n + 1, FAILS, "size must be at most .* got size=")
        value = world.pick(wrong)
        return Case(value, FAILS, rf"size must be an integer of at least 1.* got size={value!r}")

    return kind
