"""Provenance on a real node: why, verify from anywhere, exports for other programs (08 s. 11)."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.node.recomputed import replay_decision, replay_trigger
from tallystick.reactions import ids
from tallystick.views import attest, workspaces
from tallystick.views.provenance import KINDS, Evidence, component, names_of, verify
from tallystick.views.reactive import Reactive
from tests.reactions.noded import Scene, noded
from tests.reactions.scenario import planted

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "16-docs-writer"


class Played:
    """What a played example left, copied out of its node: pure from here on."""

    def __init__(self, evidence: Evidence, blobs: dict[bytes, bytes]) -> None:
        self.evidence = evidence
        self.blobs = blobs
        self.whys: dict[str, Any] = {}
        self.replays: list[tuple[str, bool]] = []
        self.stamps_equal = False

    def without(self, digest: bytes, data: bytes | None) -> Evidence:
        """The same with other bytes under one hash."""
        held = {**self.blobs, digest: data}
        return self.evidence._replace(blob=held.get)


# tidy: one story, told whole.
async def _play(folder: Path) -> Played:
    shutil.copytree(EXAMPLE, folder / "ws")
    async with noded(folder / "data") as node:
        from tallystick.reactions.bundle import reaction_bundle

        world = await node.create("main", reaction_bundle())
        here = Scene(node, world, folder / "ws")
        await here.add()
        here.write("src/tree/b.py", "x = 1\n")
        await here.scan()
        first = await _why(here, b"design/generated/tree.md")
        here.write("src/tree/b.py", "x = 2\n")
        await asyncio.sleep(2.1)  # the cooldown of the example
        await here.scan()
        await asyncio.sleep(2.1)
        await here.scan()
        played = await _copied(here)
        played.whys = {
            "first": first,
            "second": await _why(here, b"design/generated/tree.md"),
            "source": await _why(here, b"src/tree/b.py"),
            "nothing": await _why(here, b"no/such"),
        }
        here.write("design/generated/tree.md", "mine\n")
        await here.scan()
        played.whys["edited"] = await _why(here, b"design/generated/tree.md")
        view = await node.watching.projected.now(world)
        for trigger_id in list(view.triggers):
            told = await replay_trigger(node, world, trigger_id)
            played.replays.append((f"trigger {told['trigger']['kind']}", told["same"]))
        for decision_id in list(view.decisions):
            told = await replay_decision(node, world, decision_id)
            played.replays.append(("decision", told["same"]))
        again = await node.watching.projected.past(world, node.feed.head(world))
        view = await node.watching.projected.now(world)
        played.stamps_equal = again.stamps.entries() == view.stamps.entries() != []
        return played


async def _why(here: Scene, path: bytes) -> dict[str, Any]:
    from tallystick.node.inquiry import why_path

    return await why_path(here.node, here.kept, path)


async def _copied(here: Scene) -> Played:
    attempts = await here.node.look(here.world, workspaces.attempts)
    upto = here.node.feed.head(here.world)
    blobs: dict[bytes, bytes] = {}

    def read(reader: Any) -> Reactive:
        def blob(digest: bytes) -> bytes | None:
            found = reader.blob(here.world, digest)
            if found is not None:
                blobs[digest] = found
            return found

        view = Reactive()
        view.read(reader.read(here.world, 0, upto), blob)
        verify(Evidence(view, attempts, blob))
        return view

    view = await here.node.read(read)
    return Played(Evidence(view, attempts, blobs.get), blobs)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The docs writer of the example, after two edits and a hand in its output."""
    return asyncio.run(_play(tmp_path_factory.mktemp("played")))  # type: ignore[arg-type]


@pytest.mark.clause("F-06")
def test_s52_why_names_run_file_and_author(played: Played) -> None:
    """S52: the page leads to its run, the frame, the run behind that, and the edited file."""
    for word, change in (("first", "created"), ("second", "modified")):
        told = played.whys[word]
        assert (told["state"], told["reaction"]) == ("generated", "docs-writer")
        assert told["label"].startswith("docs-writer/src/tree@")
        assert [row["what"] for row in told["because"]] == ["frame", "files"]
        assert told["because"][1]["text"] == f"src/tree/b.py {change}"
        assert told["because"][1]["actor"]["kind"] == "external"
    assert played.whys["first"]["run"] != played.whys["second"]["run"]
    assert played.whys["edited"]["state"] == "edited"
    assert played.whys["edited"]["reaction"] == "docs-writer"
    assert played.whys["source"]["state"] == "external"
    assert played.whys["nothing"]["known"] is False


@pytest.mark.clause("F-04", "F-07")
def test_rx06_triggers_and_decisions_come_out_the_same(played: Played) -> None:
    """RX-06: every trigger derived again from records, every decision decided again; stamps too."""
    assert [row for row in played.replays if not row[1]] == []
    kinds = {kind for kind, _ in played.replays}
    assert {"trigger fs.changed", "trigger context.frame", "decision"} <= kinds
    assert played.stamps_equal


@pytest.mark.clause("F-19")
def test_rx15_verify_from_every_kind_reaches_all(played: Played) -> None:
    """RX-15: from a run, tree, definition, trigger, decision or artifact all kinds are reached."""
    whole = verify(played.evidence)
    assert whole.broken is None
    assert [kind for kind in KINDS if whole.checked[kind] == 0] == []
    starts: dict[str, str] = {}
    for run_id, noted in played.evidence.view.provenance.items():
        starts.update(dict(names_of(run_id, noted.value["object"], noted.value)))
    assert set(starts) == set(KINDS) - {"facts"}
    for start in starts.values():
        found = verify(played.evidence, start)
        assert found.broken is None
        assert min(found.checked[k] for k in ("tree", "definition", "run", "artifact")) > 0


@pytest.mark.clause("F-19")
def test_s49_one_flipped_byte_is_named(played: Played) -> None:
    """S49, RX-15: with one byte of any blob flipped, verify names an object and says which."""
    named = 0
    for digest, data in sorted(played.blobs.items()):
        if not data or not _is_part(played, digest):
            continue
        flipped = data[:-1] + bytes((data[-1] ^ 1,))
        found = verify(played.without(digest, flipped))
        assert found.broken is not None, ids.text(digest)
        named += 1
    assert named >= 8, "definitions, trees, manifests, facts and artifacts were tried"


def _is_part(played: Played, digest: bytes) -> bool:
    """Whether a blob belongs to the cluster: verifying asks for it."""
    asked: list[bytes] = []

    def blob(wanted: bytes) -> bytes | None:
        asked.append(wanted)
        return played.blobs.get(wanted)

    verify(played.evidence._replace(blob=blob))
    return digest in asked


@pytest.mark.clause("F-19")
def test_s49_one_changed_record_is_named(played: Played) -> None:
    """S49: a changed trigger, decision, action or provenance no longer has its name."""
    view, attempts, blob = played.evidence
    run_id, noted = next(reversed(view.provenance.items()))
    made = noted.value["object"]

    def broken(evidence: Evidence) -> str:
        found = verify(evidence).broken
        assert found is not None
        return found.kind

    other = {**noted.value, "object": {**made, "actor": {"kind": "human", "id": "somebody"}}}
    changed = _viewed(view, provenance={**view.provenance, run_id: noted._replace(value=other)})
    assert broken(Evidence(changed, attempts, blob)) == "provenance"
    attempt = {**attempts[run_id], "actions": attempts[run_id]["actions"][:-1]}
    assert broken(Evidence(view, {**attempts, run_id: attempt}, blob)) == "run"
    trigger = view.triggers[made["trigger_id"]]
    deeper = trigger._replace(value={**trigger.value, "depth": 7})
    changed = _viewed(view, triggers={**view.triggers, made["trigger_id"]: deeper})
    assert broken(Evidence(changed, attempts, blob)) == "trigger"
    decision = view.decisions[made["decision_id"]]
    denied = decision._replace(value={**decision.value, "outcome": "deny"})
    changed = _viewed(view, decisions={**view.decisions, made["decision_id"]: denied})
    assert broken(Evidence(changed, attempts, blob)) == "decision"


def _viewed(view: Reactive, **parts: Any) -> Reactive:
    made = Reactive()
    for name in ("stamps", "places", "triggers", "decisions", "settled", "provenance", "outcomes"):
        setattr(made, name, parts.get(name, getattr(view, name)))
    return made


def rows_of(played: Played) -> list[attest.Told]:
    return attest.told(played.evidence, component(played.evidence, None))


@pytest.mark.clause("F-06")
def test_s50_in_toto_statements_validate(played: Played) -> None:
    """S50: each statement passes the public library, and exporting again gives equal bytes."""
    in_toto = pytest.importorskip("in_toto_attestation.v1.statement", reason="dev extra is absent")
    from google.protobuf import json_format  # type: ignore[import-untyped]
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2  # type: ignore[import-untyped]

    made = [attest.in_toto(row) for row in rows_of(played) if row.outputs]
    assert len(made) == 2
    for statement in made:
        judged = in_toto.Statement.copy_from_pb(
            json_format.Parse(json.dumps(statement), in_toto.Statement([], "", {}).pb)
        )
        judged.validate()
        json_format.Parse(json.dumps(statement["predicate"]), provenance_pb2.Provenance())
        subject = statement["subject"][0]
        assert subject["name"] == "design/generated/tree.md"
    again = [attest.in_toto(row) for row in rows_of(played) if row.outputs]
    assert json.dumps(made) == json.dumps(again)


@pytest.mark.clause("F-06")
def test_s50_openlineage_events_validate(played: Played) -> None:
    """S50: START comes before exactly one terminal event, and the library takes both."""
    client = pytest.importorskip("openlineage.client.event_v2", reason="dev extra is absent")
    by_run: dict[str, list[str]] = {}
    for row in rows_of(played):
        for event in attest.openlineage(row):
            by_run.setdefault(event["run"]["runId"], []).append(event["eventType"])
            made = client.RunEvent(
                eventType=client.RunState[event["eventType"]],
                eventTime=event["eventTime"],
                run=client.Run(runId=event["run"]["runId"]),
                job=client.Job(namespace=event["job"]["namespace"], name=event["job"]["name"]),
                producer=event["producer"],
                inputs=[client.InputDataset(e["namespace"], e["name"]) for e in event["inputs"]],
                outputs=[client.OutputDataset(e["namespace"], e["name"]) for e in event["outputs"]],
            )
            assert made.run.runId == event["run"]["runId"]
    assert len(by_run) == 4
    assert all(kinds == ["START", "COMPLETE"] for kinds in by_run.values())


def test_s50_a_parent_facet_names_a_run_that_is_exported(played: Played) -> None:
    """S50, V4: a run is called alike where it is told of itself and where a child names it."""
    events = [event for row in rows_of(played) for event in attest.openlineage(row)]
    told = {(event["run"]["runId"], event["job"]["name"]) for event in events}
    facets = [event["run"]["facets"].get("parent") for event in events]
    parents = {(each["run"]["runId"], each["job"]["name"]) for each in facets if each is not None}
    assert parents
    assert parents <= told


@pytest.mark.clause("F-06")
def test_s50_prov_parses(played: Played) -> None:
    """S50: PROV-JSON is read by the public library with its entities, activities and agents."""
    model = pytest.importorskip("prov.model", reason="dev extra is absent")
    made = attest.prov(rows_of(played))
    document = model.ProvDocument.deserialize(content=json.dumps(made), format="json")
    kinds = {type(record).__name__ for record in document.get_records()}
    assert {"ProvEntity", "ProvActivity", "ProvAgent", "ProvGeneration", "ProvUsage"} <= kinds
    assert attest.dot(rows_of(played)).startswith("digraph provenance {")


# tidy: one defect after the other.
def _planted_exports() -> dict[str, tuple[Any, str, Any]]:
    """Each export with a defect: the test that must find it, the name, and what takes its place."""
    in_toto, openlineage, prov = attest.in_toto, attest.openlineage, attest.prov
    count = itertools.count()

    def undigested(row: attest.Told) -> dict[str, Any]:
        made = in_toto(row)
        return {**made, "subject": [{"name": each["name"]} for each in made["subject"]]}

    def unequal(row: attest.Told) -> dict[str, Any]:
        made = in_toto(row)
        details = made["predicate"]["runDetails"]
        details["metadata"]["invocationId"] += str(next(count))
        return made

    def agentless(rows: list[attest.Told]) -> dict[str, Any]:
        return {key: value for key, value in prov(rows).items() if key != "agent"}

    return {
        "no digest": (test_s50_in_toto_statements_validate, "in_toto", undigested),
        "unequal again": (test_s50_in_toto_statements_validate, "in_toto", unequal),
        "end before start": (
            test_s50_openlineage_events_validate,
            "openlineage",
            lambda row: list(openlineage(row))[::-1],
        ),
        "two ends": (
            test_s50_openlineage_events_validate,
            "openlineage",
            lambda row: [*openlineage(row), list(openlineage(row))[-1]],
        ),
        "no agent": (test_s50_prov_parses, "prov", agentless),
    }


@pytest.mark.parametrize("defect", sorted(_planted_exports()))
def test_s50_a_broken_export_is_found_out(played: Played, defect: str) -> None:
    """RX-01: with a defect in an export, the test of it fails."""
    test, name, broken = _planted_exports()[defect]
    test(played)
    with planted(attest, name, broken), pytest.raises((AssertionError, ValueError)):
        test(played)


def test_times_are_told_in_the_calendar() -> None:
    """V4: recorded nanoseconds in RFC 3339, checked against the calendar of the library."""
    from datetime import UTC, datetime

    from tallystick.views.instants import instant, uuid7

    for seconds in (0, 951_782_400, 1_709_164_799, 1_709_251_200, 4_102_444_799):
        told = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        assert instant(seconds * 10**9) == told
    from uuid import UUID

    made = UUID(uuid7(1_794_778_160_698_078_980, "sha256:" + "c41f3793160585d23f" * 3))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
