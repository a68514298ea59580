"""The project's own rules: one list of requirements, rooms that import upwards, a Makefile that
says what it lacks."""

import ast
import fnmatch
import importlib.metadata as metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
import yaml
from calls import files_entered
from handful import VCGMM, BilevelCoreset, LightweightCoreset, Logistic, MatchedCoreset
from line_measures import Measures, branches, by_package, measured
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "lib"
PACKAGES = ("handful", "handful_papers")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = {
    path.relative_to(LIB).as_posix(): path
    for name in PACKAGES
    for path in sorted((LIB / name).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}

# The library from the bottom up, a row a layer: a room, which is a module or a subpackage, imports
# only from itself and from rooms of the rows above its own.
LAYERS = """
version types running trainers comparison_table distances
lazy scales tables code_hash
forms rows
checks sources
options blocks parts torch_data
plans
coreset
models
baselines matching svm proxies
sensitivity bilevel attribution
clustering sampling streaming
continual active dictionary estimator
compare data
cli
"""
ROOMS = [row.split() for row in LAYERS.strip().splitlines()]
# the rest of handful_papers is machinery
PAPERS = ("bico", "svm", "vrm", "vcgmm", "own", "public")
# Of a function, conditional expressions and comprehensions included.
MAX_BRANCHES = 12
# Three kernels, each compiled as one function.
BRANCHED = {
    "handful/clustering/vcgmm_kernels.py: update_neighbours",
    "handful/sampling/kdpp.py: _draw_set",
    "handful/sampling/online_newton.py: newton_step",
}
# Tokens on a line of code; skglm has 8.6.
AIM = 9
# without the Qt windows
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
# The CUDA packages that torch asks for, at versions of its own choice; the CPU build has none of
# them.
CUDA = re.compile(r"(nvidia|cuda|triton)\b")


def requirements():
    """Every requirement of the project and its extras, by name; `all` only unites the extras."""
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [
        *PROJECT["project"]["dependencies"],
        *(r for name, rs in extras.items() if name != "all" for r in rs),
    ]
    # one extra may take in another
    found = [r for r in map(Requirement, lines) if r.name != "handful"]
    assert len({r.name for r in found}) == len(found), "a requirement is listed twice"
    return {canonicalize_name(r.name): r for r in found}


def pins():
    """constraints.txt: version by name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if line and line[0] != "#")
    }


# --- requirements


def test_constraints_are_exact_allowed_versions_of_what_the_requirements_bring_and_no_more():
    pinned = pins()
    required = requirements()
    reached = needed_on_linux()
    assert [
        f"{r}: {pinned.get(name)}"
        for name, r in required.items()
        if not r.specifier.contains(pinned[name])
    ] == []
    # furo needs it, and it has no other versions
    betas = {"sphinx-basic-ng"}
    assert [
        n for n, v in pinned.items() if n not in betas and not re.fullmatch(r"[\d.]+(post\d+)?", v)
    ] == []
    assert reached - set(pinned) == set(), (
        "not in constraints.txt, whose first lines say how to renew it"
    )
    # What is not installed here (another platform, a later Python) may be needed by what is not
    # either.
    installed = {canonicalize_name(d.name) for d in metadata.distributions()}
    assert (set(pinned) & installed) - reached == set(), (
        "in constraints.txt, but nothing asks for it"
    )


def needed_on_linux():
    """Names of all that the requirements bring on Linux with Python 3.11, where the pins were
    made."""
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    linux |= {"python_version": "3.11", "python_full_version": "3.11.7"}
    seen = set()
    stack = [(name, extra) for name, r in requirements().items() for extra in ("", *r.extras)]
    while stack:
        name, extra = visit = stack.pop()
        if visit in seen or CUDA.match(name):
            continue
        seen.add(visit)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for r in map(Requirement, lines):
            if r.marker is None or r.marker.evaluate({"extra": extra} | linux):
                stack += [(canonicalize_name(r.name), wanted) for wanted in ("", *r.extras)]
    return {name for name, _ in seen}


def test_conda_users_get_the_same():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    by_pip = next(entry["pip"] for entry in conda if isinstance(entry, dict))
    listed = [
        Requirement(line) for line in [*conda, *by_pip] if isinstance(line, str) and line != "-e ."
    ]
    ours = {CONDA_NAMES.get(name, name): r.specifier for name, r in requirements().items()}
    ours["python"] = Requirement(f"python{PROJECT['project']['requires-python']}").specifier
    ours["pip"] = Requirement("pip").specifier
    assert {r.name: r.specifier for r in listed} == ours
    assert "-e ." in by_pip


def test_the_conda_recipe_needs_what_the_library_needs():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    minimum = {"${{ python_min }}": recipe["context"]["python_min"]}
    run = [line.replace(*next(iter(minimum.items()))) for line in recipe["requirements"]["run"]]
    ours = [*PROJECT["project"]["dependencies"], f"python{PROJECT['project']['requires-python']}"]
    assert {str(Requirement(line)) for line in run} == {str(Requirement(line)) for line in ours}
    built_by = {str(Requirement(line)) for line in recipe["requirements"]["host"][2:]}
    assert built_by == {str(Requirement(line)) for line in PROJECT["build-system"]["requires"]}
    scripts = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["license"] == PROJECT["project"]["license"]


def test_each_reproduction_can_be_cited():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    folders = [path.parent.name for path in LIB.glob("handful_papers/*/paper.toml")]
    for folder in folders:
        paper = tomllib.loads(
            (LIB / "handful_papers" / folder / "paper.toml").read_text(encoding="utf-8")
        )
        # ours
        if "short" not in paper:
            continue
        stated = yaml.safe_load(
            (ROOT / "notebooks" / folder / "metadata.yaml").read_text(encoding="utf-8")
        )
        about = {key: value for field in stated["replication"] for key, value in field.items()}
        assert (stated["title"], stated["type"]) == (f"[Re] {paper['title']}", "Replication")
        assert about["url"] == paper["url"]
        [reference] = [one for one in cited if one["title"] == paper["title"]]
        assert [
            a["family-names"]
            for a in reference["authors"]
            if a["family-names"] not in about["cite"]
        ] == []


def test_every_extra_stands_on_the_page_of_the_installation_and_in_all():
    extras = PROJECT["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(extras)
    [united] = map(Requirement, extras["all"])
    assert united.extras == set(extras) - {"all"}


def test_dependency_groups_list_nothing_that_the_extras_do_not():
    extras = PROJECT["project"]["optional-dependencies"]
    for group in PROJECT["dependency-groups"].values():
        for entry in group:
            if isinstance(entry, dict):
                assert entry["include-group"] in PROJECT["dependency-groups"]
            else:
                asked = Requirement(entry)
                assert asked.name == "handful"
                assert asked.extras <= set(extras)


def test_a_solver_finds_the_conda_environment(tmp_path):
    """As CI's job `conda` does; without the solver or its channel the test is skipped, and says
    so."""
    solver = shutil.which("micromamba")
    if solver is None:
        pytest.skip("environment.yml was not solved: there is no micromamba")
    command = [
        solver,
        "create",
        "--dry-run",
        "--yes",
        "--name",
        "solved",
        "--file",
        "environment.yml",
    ]
    environment = os.environ | {"MAMBA_ROOT_PREFIX": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500
    )
    if "Could not resolve" in done.stdout + done.stderr:
        pytest.skip("environment.yml was not solved: conda-forge is out of reach")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_imported_is_required():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in python_files()}
    trees |= {path: ast.parse(code(path)) for path in ROOT.glob("notebooks/*/*.ipynb")}
    trees |= {path: ast.parse(code(path)) for path in ROOT.glob("docs/howto/*.ipynb")}
    ours = {
        *PACKAGES,
        *sys.stdlib_module_names,
        *(part for path in trees for part in (path.stem, path.parent.name)),
    }
    provided = metadata.packages_distributions()
    known = set(requirements())
    missing = set()
    for path, tree in trees.items():
        for top in {module.split(".")[0] for module, _ in imports(tree)} - ours:
            if known.isdisjoint(canonicalize_name(d) for d in provided.get(top, [top])):
                missing.add((path.relative_to(ROOT).as_posix(), top))
    assert missing == set()


def python_files():
    return [
        *SOURCES.values(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
        *ROOT.glob("docs/*.py"),
    ]


def test_benchmarks_import_names_that_are_there():
    # no test runs the benchmarks
    missing = set()
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES:
                home = importlib.import_module(node.module)
                folder = node.module.replace(".", "/")
                names = {
                    alias.name for alias in node.names if f"{folder}/{alias.name}.py" not in SOURCES
                }
                missing |= {
                    (path.name, node.module, name) for name in names if not hasattr(home, name)
                }
    assert missing == set()


def names_bound_in(path):
    """The names that the body of a module binds, without running it."""
    names = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    return names


def test_benchmarks_import_from_one_another_what_is_there():
    missing = set()
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            home = ROOT / "benchmarks" / f"{node.module}.py"
            if home.is_file():
                names = {alias.name for alias in node.names} - names_bound_in(home)
                missing |= {(path.name, node.module, name) for name in names}
    assert missing == set()


def code(notebook):
    """The code of a notebook without its magics."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    ).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


# --- the library


def imports(tree):
    """(module, line) of every import in a tree, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module, node.lineno
            if f"{node.module}.{node.names[0].name}" in MODULES or node.module in PACKAGES:
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def dotted(name):
    """ "handful/svm/rough.py" as "handful.svm.rough"."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {dotted(name): name for name in SOURCES}


def room(module):
    """Place of `handful.x.y` in ROOMS, or None for what is no room: names that handful/__init__
    re-exports."""
    package, _, rest = module.partition(".")
    name = rest.split(".")[0] if package == "handful" else ""
    return next((i for i, row in enumerate(ROOMS) if name in row), None)


def paper(module):
    """The paper in whose room a module is; "" for the machinery, None outside the reproduction."""
    package, _, rest = module.partition(".")
    if package != "handful_papers":
        return None
    return rest.split(".")[0] if rest.split(".")[0] in PAPERS else ""


def test_every_module_has_its_room():
    tops = {
        name.split("/")[1].removesuffix(".py") for name in SOURCES if name.startswith("handful/")
    } - {"__init__"}
    assert tops - {name for row in ROOMS for name in row} == set(), (
        "new rooms need a place in ROOMS"
    )


def test_rooms_import_from_rooms_above_and_library_machinery_and_papers_keep_to_themselves():
    def wrong(here, there):
        above = (room(here), room(there))
        own = (paper(here), paper(there))
        is_own = here.split(".")[1:2] == there.split(".")[1:2]
        below = None not in above and not is_own and above[1] >= above[0]
        return below or (own[1] is not None and (own[0] is None or own[1] not in ("", own[0])))

    found = [(name, line, module) for name, tree in TREES.items() for module, line in imports(tree)]
    assert [
        (name, line, module) for name, line, module in found if wrong(dotted(name), module)
    ] == []


def test_a_modules_tests_are_found_from_its_name():
    """`tests/<package>/test_<module>.py`: what a file of tests is called begins with the module's
    name, or with the package's where it tests several modules."""
    lost = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = path.relative_to(ROOT / "tests").parent
        if folder.as_posix() in ("contracts", "project", "papers"):
            continue
        room = LIB / "handful" / folder
        modules = {module.stem for module in room.glob("*.py")} | {folder.name}
        tested = path.stem.removeprefix("test_")
        if not any(tested == name or tested.startswith(f"{name}_") for name in modules if name):
            lost.append(path.relative_to(ROOT).as_posix())
    assert lost == []


def test_nothing_imports_in_circles():
    needs = {
        module: {m for m, _ in imports(TREES[name]) if m in MODULES and m != module}
        for module, name in MODULES.items()
    }
    # A package's __init__ only re-exports what its modules define.
    graph = {
        module: found
        for module, found in needs.items()
        if not MODULES[module].endswith("__init__.py")
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


READERS = {"check_array", "check_X_y", "validate_data"}


def test_rows_are_read_by_the_checks_alone():
    """They make them readable first: entries of a sparse matrix stored in parts, tensors of types
    that numpy lacks."""
    found = []
    for name, tree in TREES.items():
        foreign = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("sklearn"):
                foreign |= READERS & {alias.name for alias in node.names}
        for node in ast.walk(tree):
            called = getattr(node, "func", None)
            reads = (
                getattr(called, "id", None) in foreign or getattr(called, "attr", None) in READERS
            )
            # The names of the columns are no rows.
            reads = reads and "skip_check_array" not in {keyword.arg for keyword in node.keywords}
            found += [f"{name}:{node.lineno}"] if reads else []
    assert [place for place in found if not place.startswith("handful/checks.py")] == []
    assert found


def test_only_the_commands_print():
    prints = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "print"
        and not name.endswith("/cli.py")
    ]
    assert prints == []


def in_memory():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    return X, y


def test_a_fit_goes_through_the_files_that_contributing_names():
    """CONTRIBUTING follows `BilevelCoreset.fit` on an array in memory through these modules."""
    selector = BilevelCoreset(Logistic(l2=1e-2), size=10, random_state=0)
    entered = files_entered(lambda: selector.fit(*in_memory()))
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = page.partition("**Where a fit goes.**")[2].partition("\n\n")[0]
    named = set(re.findall(r"`((?:\w+/)?\w+\.py)`", told))
    assert named == entered


@pytest.mark.parametrize(
    ("estimator", "most"),
    [
        (BilevelCoreset(Logistic(l2=1e-2), size=10, random_state=0), 16),
        (MatchedCoreset(Logistic(l2=1e-2)), 18),
        (VCGMM(3, random_state=0), 14),
    ],
)
def test_a_fit_goes_through_few_files(estimator, most):
    """The aim is ten; a change that needs one more says why."""
    assert len(files_entered(lambda: estimator.fit(*in_memory()))) <= most


@pytest.mark.parametrize(
    "estimator",
    [
        BilevelCoreset(Logistic(l2=1e-2), size=10, random_state=0),
        MatchedCoreset(Logistic(l2=1e-2)),
        MatchedCoreset(Logistic(), at="posterior", random_state=0),
        LightweightCoreset(20, random_state=0),
        VCGMM(3, random_state=0),
        VCGMM(3, coreset_size=50, random_state=0),
    ],
)
@pytest.mark.filterwarnings("ignore:it hardly pays")
def test_an_array_in_memory_does_not_pass_through_what_reads_files(estimator):
    assert files_entered(lambda: estimator.fit(*in_memory())) & {"blocks.py", "sources.py"} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_line_says_one_thing(package):
    found = sum(by_package(LIB / package).values(), Measures())
    assert found.parallel_in_hundred_lines <= 1
    assert found.tokens_a_line <= AIM


def test_each_package_keeps_to_nine_tokens_a_line():
    dense = [
        f"{package}: {name}"
        for package in PACKAGES
        for name, found in by_package(LIB / package).items()
        if found.tokens_a_line > AIM
    ]
    assert dense == []


def test_no_function_has_many_branches():
    functions = [
        (name, node)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    many = {f"{name}: {node.name}" for name, node in functions if branches(node) > MAX_BRANCHES}
    assert many <= BRANCHED


def test_branches_are_those_of_a_function_that_is_counted_by_hand():
    source = """
def f(a, b):
    if a and b:
        return [x if x else 0 for x in b if x]

    def g():
        return a or b
"""
    [function] = ast.parse(source).body
    # `if`, `and`, the conditional expression, the comprehension and its condition.
    assert branches(function) == 5


def test_the_measures_are_those_of_a_file_that_is_counted_by_hand(tmp_path):
    """Two lines of three and seven tokens; docstring, comment and blank line do not count."""
    path = tmp_path / "module.py"
    path.write_text('"""A docstring."""\n\n# A comment.\na = 1\nb, c = 2, 3\n', encoding="utf-8")
    assert measured(path) == Measures(n_tokens=10, n_lines=2, n_parallel=1)


def undocumented(body, prefix=""):
    """Public functions and classes without a docstring, and methods that do more than one thing
    without one."""
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        delegates = prefix and isinstance(node, ast.FunctionDef) and len(node.body) == 1
        if not ast.get_docstring(node) and not delegates:
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body, f"{node.name}.")


def test_what_is_public_says_what_it_is():
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []
    silent = {name: list(undocumented(tree.body)) for name, tree in TREES.items()}
    assert {name: found for name, found in silent.items() if found} == {}


def test_a_wheel_holds_every_file_of_the_library_and_none_of_the_reproduction():
    setuptools = PROJECT["tool"]["setuptools"]
    assert setuptools["packages"]["find"]["include"] == ["handful", "handful.*"]
    patterns = setuptools["package-data"]["handful"]
    package = LIB / "handful"
    files = [p.relative_to(package).as_posix() for p in package.rglob("*") if p.is_file()]
    data = [f for f in files if "__pycache__" not in f and not f.endswith(".py")]
    assert data
    assert [
        f for f in data if not any(fnmatch.fnmatch("/" + f, p.replace("**", "*")) for p in patterns)
    ] == []
    packages = {path.parent for path in SOURCES.values()}
    assert [p for p in packages if not (p / "__init__.py").is_file()] == []


# --- a release


def test_the_index_page_has_no_link_that_needs_the_checkout():
    spec = importlib.util.spec_from_file_location("project_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "![a](figures/a.png) [b](docs/a.md), [c](https://x.org/y), [d](#below)"
    here = "https://x.org/it"
    absolute = (
        f"![a]({here}/raw/HEAD/figures/a.png) [b]({here}/blob/HEAD/docs/a.md), "
        "[c](https://x.org/y), [d](#below)"
    )
    assert module.absolute(text, here) == absolute
    readme = module.absolute((ROOT / "README.md").read_text(encoding="utf-8"), "")
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)|<img", readme) == []
    picture = '<img src="figures/a.png" width="9">'
    assert module.absolute(picture, here) == f'<img src="{here}/raw/HEAD/figures/a.png" width="9">'


def test_versions_and_pythons_agree_wherever_they_stand():
    about = PROJECT["project"]
    fallback = PROJECT["tool"]["setuptools_scm"]["fallback_version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {fallback}" in changelog
    assert f"version: {fallback}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'version: "{fallback}"' in (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    for name in ("codemeta.json", ".zenodo.json"):
        stated = json.loads((ROOT / name).read_text(encoding="utf-8"))
        assert (stated["version"], stated["license"].rpartition("/")[2]) == (
            fallback,
            about["license"],
        )
        assert set(stated["keywords"]) <= set(about["keywords"])
    named = {
        c.rpartition(" ")[2] for c in about["classifiers"] if re.fullmatch(r".*Python :: 3\.\d+", c)
    }
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    assert named == set(jobs["test"]["strategy"]["matrix"]["python"])
    assert min(named, key=lambda v: int(v[2:])) == about["requires-python"].removeprefix(">=")
    assert (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-") in named
    assert (
        re.search(r"^FROM python:([\d.]+)-", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[1]
        in named
    )


# --- the tree


def test_git_keeps_the_package_and_the_committed_figures_and_no_built_ones(tmp_path):
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    names = "lib/handful_papers/bico/published.csv lib/handful/data/registry.toml data/README.md"
    kept = [
        *(f"lib/{name}" for name in SOURCES),
        *names.split(),
        "figures/laptop/bico/fig06_binary_logistic.png",
    ]
    names = (
        "data/mnist.npz docs/_build/html/index.html docs/reference/handful.svm.rst "
        "figures/quick/bico/fig06.png"
    )
    names += (
        " figures/laptop/bico/.tasks/fig06/x figures/laptop/bico/fig06.failed.ipynb "
        "docs/reproduction/bico.md"
    )
    names += " figures/laptop/bico/fig06.running.ipynb"
    built = [*names.split(), ".venv/.handful", "lib/handful/__pycache__/coreset.cpython-311.pyc"]
    command = ["git", "check-ignore", "--no-index", "--stdin"]
    asked = "\n".join(kept + built)
    ignored = subprocess.run(
        command, cwd=tmp_path, input=asked, capture_output=True, text=True
    ).stdout.split()
    assert ignored == built


def make(folder, *arguments, path=None):
    """Run the project's Makefile in `folder`, without the variables of a make around this test."""
    environment = {
        k: v
        for k, v in os.environ.items()
        if k not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHON"}
    }
    environment["LC_ALL"] = "C"
    if path:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.fixture
def checkout(tmp_path):
    """A folder with spaces in its name that holds what the set-up reads, and a maker of false
    Pythons."""
    folder = tmp_path / "a check out"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)

    def python(script):
        path = tmp_path / "false python3"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return f"PYTHON={path}"

    return folder, python


# Makes a .venv whose pip fails the first time.
NO_NETWORK = """case "$2" in *platform*) echo 3.12.3;; venv)
mkdir -p .venv/bin; cat > .venv/bin/python <<'EOF'
#!/bin/sh
[ "$2" = pip ] || exit 0
[ -e .venv/second ] || { touch .venv/second; exit 1; }
EOF
chmod +x .venv/bin/python;; esac"""


def test_a_set_up_that_failed_is_taken_up_again(checkout):
    folder, python = checkout
    assert make(folder, ".venv/.handful", python(NO_NETWORK)).returncode != 0
    assert (folder / ".venv" / "second").exists()
    assert not (folder / ".venv" / ".handful").exists()
    # the .venv is there: no Python is sought
    assert make(folder, ".venv/.handful", python("exit 1")).returncode == 0
    assert (folder / ".venv" / ".handful").exists()
    assert "up to date" in make(folder, ".venv/.handful", python("exit 1")).stdout
    os.utime(folder / "constraints.txt", (2**31, 2**31))
    assert "install" in make(folder, "-n", ".venv/.handful").stdout


def test_make_lab_hands_its_options_on(checkout):
    folder, python = checkout
    make(folder, ".venv/.handful", python(NO_NETWORK))
    make(folder, ".venv/.handful", python("exit 1"))
    assert (
        "--port 9999 notebooks/index.ipynb" in make(folder, "-n", "lab", "ARGS=--port 9999").stdout
    )
