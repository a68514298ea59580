"""What is declared of each figure: its ``.toml`` (title, data, minutes, claims), and the parameters
of its profiles.

The parameters of a profile are a file that papermill reads as well (``papermill -f``),
``profiles/<profile>/<paper>/<figure>.yaml``. Where a profile has none, the values of the notebook's
parameters cell stand, which are those of profile quick.
"""

import tomllib
from functools import cache

from handful_papers.claims import HOME, PROFILES, Claim

# The checkout.
ROOT = HOME.parents[1]
PROFILES_FOLDER = ROOT / "profiles"
# The profile of the figures that want a GPU: in parts of minutes what profile paper does in days.
GPU = "gpu"
# Of a notebook with the values of its cell, where its entry does not say more.
QUICK_MINUTES = 0.5
# Parameters that decide how a run goes and not what it finds.
NOT_PROTOCOL = ("device", "n_jobs", "show")


@cache
def papers():
    """The papers in order: key -> dict of `paper.toml` (title, source, about, url, methods)."""
    found = {
        path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in HOME.glob("*/paper.toml")
    }
    return dict(sorted(found.items(), key=lambda pair: pair[1]["order"]))


@cache
def names():
    """ "<paper>/<figure>" of every figure: paper by paper, figures before tables, by number."""
    entries = (path for path in HOME.glob("*/*.toml") if path.stem != "paper")
    return sorted((f"{path.parent.name}/{path.stem}" for path in entries), key=_place)


def _place(name):
    paper, figure = name.split("/")
    kind, _, label = figure.partition("_")
    is_ours = kind[:3] not in ("fig", "tab")
    return list(papers()).index(paper), is_ours, "S" in kind, kind, label


@cache
def figure_entry(name):
    """A figure's entry: a dict with `item`, a list of dict; `minutes` and `profiles`, a dict each
    with a key for each profile; `expected`; `claim`, a list of `Claim`.

    Raises
    ------
    ValueError
        naming the file, where it is missing or not as it should be.
    """
    path = HOME / f"{name}.toml"
    try:
        entry = {"expected": {}} | tomllib.loads(path.read_text(encoding="utf-8"))
        entry["item"] = [_checked_item({"label": ""} | item) for item in entry["item"]]
        entry["minutes"] = _checked_minutes({"quick": QUICK_MINUTES} | entry["minutes"])
        # Most figures make one item.
        first = {"item": entry["item"][0]["label"]}
        entry["claim"] = [Claim(**first | row) for row in entry.get("claim", [])]
    except FileNotFoundError:
        raise ValueError(
            f"{name} has no entry: write {path} (CONTRIBUTING says what it holds)."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error!r}") from error
    entry["profiles"] = {profile: _parameters(profile, name) for profile in entry["minutes"]}
    return entry


def papers_data(entry):
    """The paper's data sets, as the items of a figure's entry name them: a list for `level`."""
    return [one for item in entry["item"] for one in item.get("data", [])]


def _checked_item(item):
    for key in ("label", "title", "about"):
        if not isinstance(item[key], str):
            raise ValueError(f"the item's {key} must be a text, got {item[key]!r}")
    return item


def _checked_minutes(minutes):
    lost = set(PROFILES) - set(minutes)
    unknown = set(minutes) - {*PROFILES, GPU}
    if lost or unknown or not all(value > 0 for value in minutes.values()):
        raise ValueError(
            f"`minutes` has a number above 0 for each of {', '.join(PROFILES)} and perhaps {GPU}; "
            f"got {minutes}"
        )
    return minutes


def _parameters(profile, name):
    """What a profile's file sets, by parameter; {} where there is no such file."""
    import yaml

    path = PROFILES_FOLDER / profile / f"{name}.yaml"
    if not path.is_file():
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no parameters, `name: value`: {found!r:.80}")
    return found


def reductions(name, parameters):
    """Where a run's parameters are not those of profile `paper`, but for more seeds: a list of
    sentences."""
    paper = figure_entry(name)["profiles"]["paper"]
    compared = [key for key in parameters if key in paper and key not in NOT_PROTOCOL]
    compared = [key for key in compared if key != "n_seeds" or parameters[key] < paper[key]]
    return [
        sentence for key in compared for sentence in _differences(key, parameters[key], paper[key])
    ]


def _differences(key, value, paper):
    """A sentence for each place where two values of a parameter differ; dicts, and lists of them,
    are looked into."""
    if isinstance(value, dict) and isinstance(paper, dict):
        pairs = [(f"{key}.{k}", value.get(k), paper.get(k)) for k in {**paper, **value}]
    elif _is_list_of_dicts(value) and _is_list_of_dicts(paper) and len(value) == len(paper):
        pairs = [(f"{key}[{i}]", *pair) for i, pair in enumerate(zip(value, paper))]
    elif value == paper:
        pairs = []
    else:
        return [f"{key} = {value!r:.120} instead of {paper!r:.120}"]
    return [sentence for pair in pairs for sentence in _differences(*pair)]


def _is_list_of_dicts(value):
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)
