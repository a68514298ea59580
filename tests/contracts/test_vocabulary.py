"""One word for one thing: no public signature has a word that the table in CONTRIBUTING.md
replaces."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import handful

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def replaced():
    """The words that are replaced, each with the one that stands for it: the second and third
    columns of the table."""
    rows = re.findall(r"^\| [^|]+ \| `(\w+)`[^|]* \| ([^|]*) \|$", PAGE, re.M)
    return {old: new for new, olds in rows for old in re.findall(r"`(\w+)`", olds)}


def signatures():
    """Each public function, class and method with its parameters: (where, names)."""
    for found in pkgutil.walk_packages(handful.__path__, "handful."):
        if found.name == "handful.cli":
            continue
        module = importlib.import_module(found.name)
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != found.name:
                continue
            # numba's
            thing = getattr(thing, "py_func", thing)
            methods = vars(thing).items() if inspect.isclass(thing) else ()
            for part, member in [("", thing), *methods]:
                # of a classmethod
                member = getattr(member, "__func__", member)
                if callable(member) and not part.startswith("_"):
                    try:
                        parameters = inspect.signature(member).parameters
                    except ValueError:
                        # a class with the signature of a built-in, such as an error
                        continue
                    yield ".".join(filter(None, (found.name, name, part))), set(parameters)


def test_no_signature_has_a_word_that_another_stands_for():
    words = replaced()
    seen = dict(signatures())
    # the table is read
    assert {"lam": "l2", "score": "rule"}.items() <= words.items()
    assert "n_clusters" in seen["handful.clustering.vcgmm.VCGMM"]
    assert "sample_weight" in seen["handful.coreset.Selector.fit"]
    wrong = [
        f"{where}: {word} is {words[word]}"
        for where in seen
        for word in sorted(seen[where] & set(words))
    ]
    assert wrong == []
