"""Files mutated at random: each is refused by its name, or changes nothing, and everything else
still works."""

import copy
import json
import os
import random
import shutil

import handful.cli
import pytest
from handful.active import ActiveLoop
from handful_papers import committed, picture, site

CASES = int(os.environ.get("HANDFUL_EXAMPLES", 12))
KEPT = "svm/fig04_sensitivities"
HIT = "svm/fig03_streaming_error"
VALUES = (
    None,
    True,
    -1,
    0.5,
    1e300,
    10**400,
    "",
    "x",
    "quick",
    "by hand",
    "a/b",
    "](|",
    [],
    {},
    [None],
    {"x": {}},
    [[1]],
)


def mutated_bytes(rng, data):
    """Cut short, emptied, or a stretch of it overwritten."""
    at = rng.randrange(len(data))
    return rng.choice(
        [data[:at], b"", data[:at] + rng.randbytes(3) + data[at + rng.randrange(9) :], data[at:]]
    )


def mutated_json(rng, data):
    """One value or key somewhere in the tree replaced or lost; or its bytes mutated."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, data)
    tree = copy.deepcopy(root := [json.loads(data)])
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = rng.choice(keys) if node is not tree else 0
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.85:
            node = node[key]
            continue
        break
    if rng.random() < 0.3 and node is not tree:
        node.pop(key)
    else:
        node[key] = rng.choice(VALUES)
    return data if tree == root else json.dumps(tree[0]).encode()


def mutations(data, change, seed):
    rng = random.Random(seed)
    return [change(rng, data) for _ in range(CASES)]


def shown(row):
    """What the picture of all records has of one; drawing it takes a second."""
    return picture.ratios(row), picture.extents(row["record"])


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """A folder of two committed records; all that reads records reads these."""
    folder = tmp_path / "figures"
    for name in (KEPT, HIT):
        for path in (committed.FIGURES / "laptop").glob(f"{name}*"):
            (folder / "laptop" / "svm").mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / "laptop" / "svm")
    for function in (site.item_rows, site.terminal, committed.records):
        defaults = tuple(
            folder if value == committed.FIGURES else value for value in function.__defaults__
        )
        monkeypatch.setattr(function, "__defaults__", defaults)
    monkeypatch.setattr(
        picture, "write", lambda: [shown(row) for row in site.item_rows()[0] if row["record"]]
    )
    monkeypatch.setattr(committed, "FIGURES", folder)
    return folder


@pytest.mark.parametrize("suffix", [".json", ".ipynb", ".csv"])
def test_a_mutated_record_notebook_or_table_is_named_and_the_other_records_are_shown(
    suffix, figures, capsys
):
    path = (figures / "laptop" / HIT).with_suffix(suffix)
    files = {file: file.read_bytes() for file in figures.rglob("*.*")}
    kept = next(line for line in site.terminal().splitlines() if line.startswith(KEPT))
    change = mutated_bytes if suffix == ".csv" else mutated_json
    n_named = 0
    for data in mutations(files[path], change, suffix):
        path.write_bytes(data)
        status = handful.cli.main(["report", "--judge"])
        said = capsys.readouterr().out
        named = str(path) in said
        assert kept in said
        assert named == (status == 1 or "Left out" in said)
        n_named += named
        assert len(site.paper_page("svm", figures)) > 0
        assert len(site.disagreements_page()) > 0
        for file, content in files.items():
            file.write_bytes(content)
    assert n_named > CASES / 4


def test_a_mutated_file_of_answers_is_named_or_changes_nothing_that_is_not_in_it(tmp_path):
    path = tmp_path / "answers.json"

    def loop():
        return ActiveLoop(
            lambda a, b, pool, n: pool[:n], n_pool=20, classes=["a", "b"], batch_size=3, path=path
        )

    loop().run(lambda i: "ab"[i % 2], n_rounds=3)
    loop().next()
    whole = path.read_bytes()
    for data in mutations(whole, mutated_json, "answers"):
        path.write_bytes(data)
        try:
            found = loop()
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017 (other files are taken)
            assert path.read_bytes() == data
            continue
        found.run(lambda i: "ab"[i % 2], n_rounds=9)
        assert sorted(found.answers) == list(range(20))
        assert set(found.answers.values()) <= {"a", "b", None}
