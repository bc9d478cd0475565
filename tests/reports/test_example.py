from __future__ import annotations

import json

import jsonschema
import pytest

from tests.builders.result import EXAMPLE, SCHEMA_FILE, empty_result, example_file, example_result, schema_text
from tracelab.results import RunResult, json_schema

AGAIN = "python -m tests.builders.result writes it again"


def test_the_schema_of_the_repository_is_the_one_of_the_types() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), AGAIN


def test_the_example_of_the_repository_is_true() -> None:
    assert EXAMPLE.read_bytes() == example_file(), AGAIN


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("result", [example_result(2), example_result(9, 3, hostile=True), empty_result()], ids=["two", "hostile", "empty"])
def test_built_documents_validate_and_come_back(result: RunResult) -> None:
    data = result.to_json()
    jsonschema.validate(json.loads(data), json_schema(), cls=jsonschema.Draft202012Validator)
    assert RunResult.from_json(data).to_json() == data


def test_the_example_validates_and_adds_up() -> None:
    document = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")), cls=jsonschema.Draft202012Validator)
    run, whole = document["run"], document["attribution"]
    window = (run["end_ns"] - run["start_ns"]) / 1e9

    parts = sum(c["seconds"] for c in whole["causes"]) + whole["unattributed"]
    assert parts == pytest.approx(whole["per_step_total"])
    assert whole["unattributed"] >= 0
    assert whole["per_step_total"] * run["steps"] == pytest.approx(window)
    assert all(c["low"] <= c["seconds"] <= c["high"] and c["share"] == pytest.approx(c["seconds"] / whole["per_step_total"]) for c in whole["causes"])

    names = ("compute_s", "memcpy_s", "exposed_transfer_s", "exposed_wait_s", "idle_s")
    assert sorted(whole["per_rank"]) == sorted(str(r["rank"]) for r in run["ranks"])
    assert all(sum(t[n] for n in names) == pytest.approx(window) for t in whole["per_rank"].values())

    files = {i["path"] for i in document["inputs"]}
    losses = [f["lost_s"] for f in document["findings"]]
    assert losses == sorted(losses, reverse=True)
    assert len({f["kind"] for f in document["findings"]}) == len(losses) == 3
    for f in document["findings"]:
        assert f["lost_s_low"] <= f["lost_s"] <= f["lost_s_high"] < window
        assert f["lost_gpu_hours"] == pytest.approx(f["lost_s"] * len(run["ranks"]) / 3600)
        assert set(f["ranks"]) <= {r["rank"] for r in run["ranks"]}
        assert set(f["hosts"]) <= {c["host"] for c in document["clocks"]}
        assert all(e["source"] in files for e in f["evidence"])
    assert sum(c["offset_ns"] for c in document["clocks"]) == 0

    steps = {s["id"]: s for s in document["sections"]}["steps"]["tables"][0]["columns"]
    assert sum(next(c["values"] for c in steps if c["name"] == "length_ns")) == run["end_ns"] - run["start_ns"]
