"""`tally bundle`: what is built, refused, compared; no node is needed (K-07, X-19)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.shape import misfit
from tallystick.cli.sources import bundle_at
from tallystick.cli.table import VERBS
from tests.cli.runs import tally
from tests.conformance.abi_lanes import app_of, wasm

COUNTER = """
def tick(state, event, ctx):
    count = 0 if state is None else state["count"]
    return {"count": count + event["by"]}
"""
SOURCES: list[dict[str, Any]] = [
    {"$kind": "defschema", "name": "demo/Add@1", "type": {"record": {"by": {"nat": {}}}}},
    {"$kind": "defschema", "name": "demo/Count@1", "type": {"record": {"count": {"nat": {}}}}},
    {
        "$kind": "defmodule",
        "name": "demo/code@1",
        "runtime": {"kind": "python", "python": "3.11", "artifact": {"path": "code"}},
    },
    {
        "$kind": "defworkflow",
        "name": "demo/counter@1",
        "state": "demo/Count@1",
        "event": "demo/Add@1",
        "effects_emitted": [],
        "impl": {"module": "demo/code@1", "entrypoint": "counter:tick"},
    },
    {
        "$kind": "manifest",
        "air_version": "2",
        "routing": {"subscriptions": [{"event": "demo/Add@1", "workflow": "demo/counter@1"}]},
    },
]
SHAPES = {command.words: command.shape for command in VERBS}


def written(folder: Path, sources: list[dict[str, Any]] | None = None) -> Path:
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "counter.py").write_text(COUNTER)
    (folder / "app.tally.json").write_text(json.dumps(sources or SOURCES))
    return folder


def ok(words: str, *rest: str | Path) -> Any:
    done = tally(*words.split(), *map(str, rest), "--json")
    assert done.code == 0, done.err
    assert misfit(SHAPES[words], done.value) is None
    return done.value


@pytest.mark.clause("X-19")
def test_two_builds_give_equal_bytes(tmp_path: Path):
    """MO-13, ND-28: a build in two folders gives one container; showing it says what is inside."""
    made = []
    for name in ("one", "two"):
        out = tmp_path / f"{name}.zip"
        built = ok("bundle build", written(tmp_path / name), "-o", out, "--authority", "structural")
        assert built["size"] == out.stat().st_size
        made.append(out.read_bytes())
    assert made[0] == made[1]
    shown = ok("bundle show", tmp_path / "one.zip")
    assert shown["bundle"] == built["bundle"]
    assert "demo/counter@1" in [row["name"] for row in shown["definitions"]]
    assert len(shown["artifacts"]) == 2, "the listing and the one file"
    verified = tally("verify", "--bundle", str(tmp_path / "one.zip"), "--json")
    assert verified.value["bundle"] == built["bundle"]


@pytest.mark.clause("K-07")
def test_a_check_finds_everything_and_ends_with_2(tmp_path: Path):
    """ND-28: 2 on errors, 1 on warnings with --strict, else 0; each finding has code and hint."""
    good = written(tmp_path / "good")
    found = ok("bundle check", good, "--authority", "structural")
    assert found["ok"] is True
    strict = tally("bundle", "check", str(good), "--strict", "--json")
    assert strict.code == (1 if strict.value["warnings"] else 0)
    broken = [dict(each) for each in SOURCES]
    broken[3]["state"] = "demo/Nothing@1"
    done = tally("bundle", "check", str(written(tmp_path / "bad", broken)), "--json")
    assert done.code == 2
    assert misfit(SHAPES["bundle check"], done.value) is None
    assert [row["hint"] for row in done.value["findings"] if not row["hint"]] == []
    said = tally("bundle", "check", str(tmp_path / "bad"))
    assert said.code == 2
    assert "demo/Nothing@1" in said.out


def test_canonical_definitions_are_printed(tmp_path: Path):
    """ND-28: `--canonical` prints what is hashed."""
    found = ok("bundle check", written(tmp_path / "a"), "--canonical", "--authority", "structural")
    kinds = [each["$kind"] for each in found["canonical"]]
    assert kinds[-1] == "manifest"
    assert "{" in tally("bundle", "check", str(tmp_path / "a"), "--canonical").out


def test_a_diff_names_what_changed(tmp_path: Path):
    """ND-28: equal is 0; a difference is "no" (1), with the names."""
    one = written(tmp_path / "one")
    assert ok("bundle diff", one, one)["equal"] is True
    other = [dict(each) for each in SOURCES]
    other[1] = {**other[1], "type": {"record": {"count": {"int": {}}}}}
    done = tally("bundle", "diff", str(one), str(written(tmp_path / "two", other)), "--json")
    assert done.code == 1
    assert "demo/Count@1" in done.value["changed"]


@pytest.mark.parametrize(
    ("given", "code"),
    [("nowhere", "bundle.not_found"), ("empty", "bundle.not_found"), ("torn.zip", "bundle.")],
)
def test_what_holds_no_bundle_is_refused(tmp_path: Path, given: str, code: str):
    """ND-28: exit 2 and a problem object on the error stream."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04")
    done = tally("bundle", "show", str(tmp_path / given), "--json")
    assert (done.code, done.out) == (2, "")
    assert done.problem["code"].startswith(code)


def test_definitions_that_are_no_json_are_refused(tmp_path: Path):
    """ND-28: the file is named."""
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.yaml").write_text("a: [")
    for name in ("a.json", "b.yaml"):
        done = tally("bundle", "show", str(tmp_path / name), "--json")
        assert (done.code, done.problem["code"]) == (2, "def.bad_value")
        assert name in done.problem["detail"]


def test_a_wasm_file_is_the_artifact_of_its_module(tmp_path: Path) -> None:
    """A path to a `.wasm` file beside the definitions gives the bundle that its bytes make."""
    made = app_of("wat").bundle
    definitions = [dict(each) for each in made.definitions()]
    for each in definitions:
        if each["$kind"] == "defmodule":
            each["runtime"] = {"kind": "wasm", "artifact": {"path": "counter.wasm"}}
    rows = {
        k: [{"name": r["name"]} for r in v] for k, v in made.manifest.items() if type(v) is list
    }
    manifest = {**made.manifest, **rows}
    (tmp_path / "all.json").write_text(json.dumps([*definitions, manifest]))
    (tmp_path / "counter.wasm").write_bytes(wasm("wat"))
    assert bundle_at(tmp_path).root == made.root


GONE = [
    (
        {"$kind": "defplan", "name": "demo/plan@1"},
        "legacy.defplan",
        "defplan is gone: write a defworkflow, or a playbook if an operator owns the steps",
    ),
    (
        {"$kind": "manifest", "air_version": "2", "triggers": []},
        "legacy.triggers",
        "triggers are gone: list the event and its workflow under routing.subscriptions",
    ),
    (
        {"$kind": "manifest", "air_version": "2", "routing": {"inboxes": []}},
        "legacy.inboxes",
        "routing.inboxes is gone: submit an event to the world",
    ),
    (
        {"record": "PlanStarted", "plan": "demo/p@1"},
        "legacy.plan_record",
        "plan-era records cannot be folded: import the state as events",
    ),
]


@pytest.mark.clause("K-24")
@pytest.mark.parametrize(("document", "code", "words"), GONE)
def test_what_is_gone_is_refused_on_the_command_line(tmp_path, document, code, words):
    """MO-03: `bundle check` ends with 2 and says exactly these words, to people and programs."""
    sources = [document] if document.get("$kind") == "manifest" else [*SOURCES, document]
    kept = SOURCES[:-1] if document.get("$kind") == "manifest" else []
    folder = written(tmp_path / "app", [*kept, *sources])
    told = tally("bundle", "check", str(folder))
    assert told.code == 2
    assert words in told.out + told.err
    asked = tally("bundle", "check", str(folder), "--json")
    assert asked.code == 2
    assert code in asked.out + asked.err
    assert words in asked.out + asked.err
