"""The table: for every public class and function, the kinds of its arguments, how it is used, and what must hold.

A parameter without a row here gets its kind from `BY_NAME`. What is public is found by `public`; a name that is neither
in `entries()` nor in `EXEMPT` fails `test_every_public_name_is_in_the_table`.
"""

import ast
import importlib
import json
import pkgutil
from pathlib import Path

import handful

from fuzz import room_bilevel, room_clustering, room_other, room_sampling, room_selectors

ROOMS = (room_selectors, room_bilevel, room_sampling, room_clustering, room_other)
ROOT = Path(__file__).parents[2]
OPEN = (
    "handful.linalg",
    "handful.sampling.torch_sampler",
    "handful.torch_data",
    "handful.data.synthetic",
    "handful.active.audio",
)  # modules, not rooms

ABSTRACT = "a base class: each of its subclasses is in the table"
CONSTANT = "a value, not something to call"
ERROR = "an error, raised by others"
INSIDE = "takes what its callers have checked; each of them is in the table"
KERNEL = "compiled: takes what its callers have checked"
LONG = "trains a network for minutes at its smallest; its own tests give it bad input"
STEP = "a step of augment, which checks the recordings; tests/test_active_audio.py"
EXEMPT = {
    "handful.active.audio.change_amplitude": STEP,
    "handful.active.audio.change_speed": STEP,
    "handful.active.audio.mix_noise": STEP,
    "handful.active.audio.shift": STEP,
    "handful.active.Acquisition": ABSTRACT,
    "handful.active.LabellingPanel": "needs a notebook's front end; tests/test_active_panel.py",
    "handful.active.mixmatch.mix_up": INSIDE,
    "handful.active.mixmatch.sharpen": INSIDE,
    "handful.active.networks.WideResNet": LONG,
    "handful.bilevel.ConvergenceError": ERROR,
    "handful.bilevel.Problem": ABSTRACT,
    "handful.bilevel.outer.outer_rows": INSIDE,
    "handful.bilevel.problems.joint.selection_for": INSIDE,
    "handful.bilevel.proxies.Kernel": ABSTRACT,
    "handful.bilevel.selections.base.Rows": INSIDE,
    "handful.bilevel.selections.softmax.SoftmaxSelection": INSIDE,
    "handful.bilevel.strategies.weights.descend": INSIDE,
    "handful.bilevel.strategies.weights.final_weights": INSIDE,
    "handful.bilevel.Suspects": "what suspects() gives",
    "handful.bilevel.trainer.class_weights": INSIDE,
    "handful.bilevel.trainer.held_out_loss": INSIDE,
    "handful.checks.check_integer": "the check itself; tests/test_checks.py",
    "handful.cli.Refused": ERROR,
    "handful.clustering.PRINTED": CONSTANT,
    "handful.clustering.minibatch.kmeans_step": KERNEL,
    "handful.clustering.distances.nearest_centers": INSIDE,
    "handful.clustering.seeding.afkmc2": INSIDE,
    "handful.clustering.seeding.kmeans_plusplus": INSIDE,
    "handful.clustering.variational.Mixture": INSIDE,
    "handful.clustering.variational.VariationalEM": INSIDE,
    "handful.clustering.variational.padded": INSIDE,
    "handful.clustering.variational.random_neighbours": INSIDE,
    "handful.clustering.variational.random_sets": INSIDE,
    "handful.clustering.vcgmm_kernels.Threads": INSIDE,
    "handful.continual.vcl.gaussian_kl": INSIDE,
    "handful.continual.views.Views": INSIDE,
    "handful.data.BadFileError": ERROR,
    "handful.data.MissingDataError": ERROR,
    "handful.data.Status": "a row of what status() gives",
    "handful.data.Verified": "a row of what verify() gives",
    "handful.data.registry.ENTRIES": CONSTANT,
    "handful.data.fetch": "downloads; tests/test_data_files.py and tests/test_data_limits.py",
    "handful.dictionary.Recovery": ABSTRACT,
    "handful.linalg.alias_records": INSIDE,
    "handful.linalg.draw_alias": KERNEL,
    "handful.linalg.one_blas_thread": "takes nothing",
    "handful.linalg.resolve_alias": KERNEL,
    "handful.linalg.restricted_simplex_point": KERNEL,
    "handful.linalg.simplex_point": KERNEL,
    "handful.linalg.sq_distance": KERNEL,
    "handful.sampling.REFERENCE": CONSTANT,
    "handful.sampling.bandit.build_tree": KERNEL,
    "handful.sampling.newton.NewtonLearner": INSIDE,
    "handful.sampling.newton.DONE": CONSTANT,
    "handful.sampling.newton.batch_gradient": KERNEL,
    "handful.sampling.newton.newton_step": KERNEL,
    "handful.sampling.replay.GRID": CONSTANT,
    "handful.sampling.replay.draw_transitions": KERNEL,
    "handful.sampling.replay.set_priorities": KERNEL,
    "handful.sampling.replay.set_priority": KERNEL,
    "handful.sensitivity.draws.multinomial_draw": INSIDE,
    "handful.svm.interior_point.minimise": INSIDE,
    "handful.svm.kernels.design": INSIDE,
    "handful.svm.rough.rough_solution": INSIDE,
    "handful.coreset.Selector": ABSTRACT,
}


def entries():
    """All rows of the table: Entry by public name."""
    return dict(sorted((name, entry) for room in ROOMS for name, entry in room.entries().items()))


def room_of():
    """The module that holds the row, by public name."""
    return {name: room for room in ROOMS for name in room.entries()}


def public():
    """Public names by object: what a room's ``__all__`` names, what the reproduction takes from it, and all of OPEN."""
    found, seen = {}, {}

    def add(module, name):
        thing = getattr(importlib.import_module(module), name)
        if name.startswith("_") or type(thing).__name__ == "module":
            return
        key = id(thing)
        if key not in seen or _rank(module) < _rank(seen[key]):
            found.pop(f"{seen.get(key)}.{name}", None)
            seen[key] = module
            found[f"{module}.{name}"] = thing

    modules = [handful.__name__, *(m.name for m in pkgutil.walk_packages(handful.__path__, "handful."))]
    for module in modules:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            add(module, name)
    for module in OPEN:
        for name, thing in vars(importlib.import_module(module)).items():
            if callable(thing) and getattr(thing, "__module__", "") == module:
                add(module, name)
    for module, name in taken():
        add(module, name)
    return found


def _rank(module):
    """A room's name comes before that of the package, which re-exports it, and both before that of a module."""
    return {1: (1, module), 2: (0, module)}.get(module.count(".") + 1, (module.count("."), module))


def taken():
    """What notebooks, rooms of the papers and benchmarks import from the library: pairs (module, name)."""
    sources = [
        path.read_text(encoding="utf-8")
        for top in ("lib/handful_papers", "benchmarks")
        for path in sorted((ROOT / top).rglob("*.py"))
    ]
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
            sources.append("\n".join(line for line in code.splitlines() if not line.lstrip().startswith(("%", "!"))))
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "handful":
                yield from ((node.module, alias.name) for alias in node.names)
