"""`handful report --crate`: what RO-Crate 1.1 requires, and every file and reference is there."""

import json

from handful_papers.crate import crate
from handful_papers.provenance import to_json
from handful_papers.run import FIGURES, records


def several(value):
    return value if isinstance(value, list) else [value]


def references(value):
    if isinstance(value, dict):
        yield from [value["@id"]] if set(value) == {"@id"} else (r for v in value.values() for r in references(v))
    elif isinstance(value, list):
        yield from (r for v in value for r in references(v))


def test_the_crate_has_what_the_specification_requires_and_leads_nowhere_outside():
    made = json.loads(to_json(crate()))
    entities = {entity["@id"]: entity for entity in made["@graph"]}
    assert made["@context"] == "https://w3id.org/ro/crate/1.1/context"
    assert len(entities) == len(made["@graph"])
    head, root = entities["ro-crate-metadata.json"], entities["./"]
    assert (head["@type"], head["about"], root["@type"]) == ("CreativeWork", {"@id": "./"}, "Dataset")
    assert head["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert all(root[key] for key in ("name", "description", "license", "hasPart"))
    assert all(entity["@type"] and entity["name"] for key, entity in entities.items() if entity not in (head, root))
    assert entities[root["author"]["@id"]]["@type"] == entities[root["publisher"]["@id"]]["@type"] == "Organization"
    listed = {len(value) for entity in entities.values() for value in entity.values() if isinstance(value, list)}
    assert min(listed) > 1  # one value stands alone
    allowed = {"https://w3id.org/ro/crate/1.1"} | entities.keys()
    assert set(references(made["@graph"])) <= allowed
    files = {entity["@id"] for entity in entities.values() if entity["@type"] == "File"}
    assert {ref["@id"] for ref in root["hasPart"]} == files
    assert [name for name in files if not (FIGURES / name).is_file()] == []


def test_every_record_is_an_action_with_its_data_and_its_rows():
    actions = {entity["@id"]: entity for entity in crate()["@graph"] if entity["@type"] == "CreateAction"}
    for path, record in records()[0]:
        action = actions.pop(f"#{record['profile']}/{record['item']}")
        assert [ref["@id"].removeprefix("#data-") for ref in several(action.get("object", []))] == list(record["data"])
        assert {"@id": path.with_suffix(".csv").relative_to(FIGURES).as_posix()} in several(action["result"])
    assert actions == {}
