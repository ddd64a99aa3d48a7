"""Provenance for other programs: in-toto with SLSA, OpenLineage, PROV-JSON and DOT (V4).

Each is a pure function of the journal: exporting again gives the same bytes.
No raw prompt and no secret is in any of them, because none is in the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tallystick.reactions.listed import Manifest
from tallystick.values import canon
from tallystick.views.instants import instant, uuid7
from tallystick.views.provenance import Evidence

FORMATS: Final = ("in-toto", "openlineage", "prov", "dot")
BUILD_TYPE: Final = "urn:tallystick:reaction-run:1"
BUILDER: Final = "urn:tallystick:runtime:1"
PRODUCER: Final = "https://tallystick.invalid/"
NAMESPACE: Final = "urn:tallystick:"
_STATES: Final = {"complete": "COMPLETE", "failed": "FAIL", "aborted": "ABORT"}


class Told(NamedTuple):
    """One attempt with all that its exports speak of."""

    seq: int
    made: Mapping[str, Any]
    attempt: Mapping[str, Any]
    trigger: Mapping[str, Any]
    decision: Mapping[str, Any] | None
    manifest: Mapping[str, Any]
    parent: Mapping[str, Any] | None = None

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Paths and content ids of what was written, in the order of the actions."""
        rows = [row for action in self.made["actions"] for row in action["outputs"]]
        return [(path, content) for path, content in rows if content is not None]


_NOTHING: Final[Mapping[str, Any]] = {"files": [], "frames": {}}
_NO_ROWS: Final = canon.encode({"rows": []})


def _page(blob: Callable[[bytes], bytes | None], name: str) -> bytes:
    """A page of a manifest; what was pruned has left its hash and no rows."""
    found = blob(canon.raw_of(name))
    return _NO_ROWS if found is None else found


def told(evidence: Evidence, run_ids: Iterable[str]) -> list[Told]:
    """The attempts to export, in the order of the journal."""
    found = []
    for run_id in run_ids:
        noted = evidence.view.provenance[run_id]
        made = noted.value["object"]
        data = evidence.blob(canon.raw_of(made["inputs"]))
        decision = evidence.view.decisions.get(made["decision_id"] or "")
        found.append(
            Told(
                noted.seq,
                made,
                evidence.attempts[run_id],
                evidence.view.triggers[made["trigger_id"]].value,
                None if decision is None else decision.value,
                _NOTHING if data is None else Manifest(data, partial(_page, evidence.blob)),
                evidence.attempts.get(made["parent_run"] or ""),
            )
        )
    return sorted(found, key=lambda each: each.seq)


def digest_set(hash_text: str) -> dict[str, str]:
    """A hash as in-toto spells it."""
    algorithm, _, digits = hash_text.partition(":")
    return {algorithm: digits}


# ---- in-toto --------------------------------------------------------------------------------


# tidy: one statement, all of its fields.
def in_toto(each: Told) -> dict[str, Any]:
    """One Statement v1 with SLSA provenance v1 about the outputs of an attempt."""
    made, trigger = each.made, each.trigger
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path, "digest": digest_set(content)} for path, content in each.outputs
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "reaction": made["reaction"],
                    "target": trigger["target"]["path"],
                    "trigger": trigger["kind"],
                },
                "internalParameters": {
                    "run_key": made["run_key"],
                    "decision_id": made["decision_id"],
                    "depth": trigger["depth"],
                    "lineage": list(trigger["lineage"]),
                },
                "resolvedDependencies": _dependencies(each),
            },
            "runDetails": {
                "builder": {"id": BUILDER},
                "metadata": {
                    "invocationId": made["run_id"],
                    "startedOn": instant(each.attempt["started_ns"]),
                    "finishedOn": instant(each.attempt["ended_ns"]),
                },
                "byproducts": _byproducts(each),
            },
        },
    }


def _dependencies(each: Told) -> list[dict[str, Any]]:
    made = each.made
    rows = [
        {"name": "definition", "digest": digest_set(made["definition_hash"])},
        {"name": "tree", "digest": digest_set(made["tree_after"])},
    ]
    rows += [
        {"name": path, "digest": digest_set(content)}
        for path, content in each.manifest["files"]
        if content is not None
    ]
    rows += [
        {"name": f"frame:{kind}", "digest": digest_set(frame)}
        for kind, frame in sorted(made["frames"].items())
        if frame is not None
    ]
    if made["git_commit"] is not None:
        rows.append({"name": "git", "digest": {"gitCommit": made["git_commit"]}})
    return rows


def _byproducts(each: Told) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"name": f"journal:{each.made['world_id']}:{each.seq}"}]
    if each.decision is not None:
        rows.append({"name": "decision", "digest": digest_set(each.decision["decision_id"])})
        rows.append({"name": "facts", "digest": digest_set(each.decision["evaluated_facts"])})
    return rows


# ---- OpenLineage ----------------------------------------------------------------------------


def openlineage(each: Told) -> list[dict[str, Any]]:
    """START, then exactly one of COMPLETE, FAIL and ABORT."""
    end = {
        **_event(each, _STATES[each.attempt["state"]], each.attempt["ended_ns"]),
        "outputs": [_dataset(each, path, content) for path, content in each.outputs],
    }
    return [_event(each, "START", each.attempt["started_ns"]), end]


def _event(each: Told, kind: str, at_ns: int) -> dict[str, Any]:
    made, parent = each.made, each.parent
    facets: dict[str, Any] = {}
    if parent is not None:
        facets["parent"] = {
            "_producer": PRODUCER,
            "_schemaURL": "https://openlineage.io/spec/facets/1-0-1/ParentRunFacet.json",
            # From its own start: by any other time it would have another name than it has itself.
            "run": {"runId": uuid7(parent["started_ns"], made["parent_run"])},
            "job": {"namespace": NAMESPACE + made["world_id"], "name": each.trigger["actor"]["id"]},
        }
    return {
        "eventType": kind,
        "eventTime": instant(at_ns),
        "run": {"runId": uuid7(each.attempt["started_ns"], made["run_id"]), "facets": facets},
        "job": {"namespace": NAMESPACE + made["world_id"], "name": made["reaction"], "facets": {}},
        "inputs": [
            _dataset(each, path, content)
            for path, content in each.manifest["files"]
            if content is not None
        ],
        "outputs": [],
        "producer": PRODUCER,
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }


def _dataset(each: Told, path: str, content: str) -> dict[str, Any]:
    version = {
        "_producer": PRODUCER,
        "_schemaURL": "https://openlineage.io/spec/facets/1-0-1/DatasetVersionDatasetFacet.json",
        "datasetVersion": content,
    }
    namespace = NAMESPACE + each.trigger["workspace_id"]
    return {"namespace": namespace, "name": path, "facets": {"version": version}}


# ---- PROV and DOT ---------------------------------------------------------------------------


def prov(rows: Iterable[Told]) -> dict[str, Any]:
    """PROV-JSON: nodes, frames and artifacts are entities, runs and actions activities."""
    parts: dict[str, dict[str, Any]] = {
        name: {}
        for name in (
            "entity", "activity", "agent", "used", "wasGeneratedBy", "wasAssociatedWith",
            "wasInformedBy",
        )
    }  # fmt: skip
    for each in rows:
        _add_prov(parts, each)
    return {"prefix": {"tally": NAMESPACE}, **{key: part for key, part in parts.items() if part}}


# tidy: one attempt, all of its relations.
def _add_prov(parts: dict[str, dict[str, Any]], each: Told) -> None:
    made = each.made
    run = f"tally:run-{_digits(made['run_id'])}"
    parts["activity"][run] = {
        "prov:startTime": instant(each.attempt["started_ns"]),
        "prov:endTime": instant(each.attempt["ended_ns"]),
        "tally:label": each.attempt["label"],
    }
    actor = each.trigger["actor"]
    agent = f"tally:actor-{actor['kind']}-{_digits(canon.hash(actor))[:12]}"
    parts["agent"][agent] = {"tally:kind": actor["kind"]}
    parts["wasAssociatedWith"][f"_:as-{_digits(made['run_id'])}"] = {
        "prov:activity": run,
        "prov:agent": agent,
    }
    used = [(f"definition {made['reaction']}", made["definition_hash"])]
    used += [(path, content) for path, content in each.manifest["files"] if content is not None]
    used += [(f"frame {kind}", held) for kind, held in sorted(made["frames"].items()) if held]
    for name, content in used:
        entity = _entity(parts, name, content)
        key = _digits(canon.hash([made["run_id"], name, content]))
        parts["used"][f"_:u-{key}"] = {"prov:activity": run, "prov:entity": entity}
    for path, content in each.outputs:
        entity = _entity(parts, path, content)
        parts["wasGeneratedBy"][f"_:g-{_digits(canon.hash([made['run_id'], path]))}"] = {
            "prov:entity": entity,
            "prov:activity": run,
        }
    if made["parent_run"] is not None:
        parts["wasInformedBy"][f"_:i-{_digits(made['run_id'])}"] = {
            "prov:informed": run,
            "prov:informant": f"tally:run-{_digits(made['parent_run'])}",
        }
        parts["activity"].setdefault(f"tally:run-{_digits(made['parent_run'])}", {})


def _entity(parts: dict[str, dict[str, Any]], name: str, content: str) -> str:
    entity = f"tally:e-{_digits(canon.hash([name, content]))}"
    parts["entity"][entity] = {"tally:name": name, "tally:hash": content}
    return entity


def _digits(hash_text: str) -> str:
    return hash_text.partition(":")[2]


def dot(rows: Iterable[Told]) -> str:
    """The cluster graph: tree, definition, run, artifact."""
    lines: dict[str, None] = {"digraph provenance {": None, "  rankdir=LR;": None}
    for each in rows:
        made = each.made
        run = f'"{each.attempt["label"]}"'
        lines[f"  {run} [shape=box];"] = None
        lines[f'  "tree {_digits(made["tree_after"])[:12]}" -> {run};'] = None
        lines[f'  "{made["reaction"]} {_digits(made["definition_hash"])[:12]}" -> {run};'] = None
        for path, content in each.outputs:
            lines[f"  {run} -> {_quoted(f'{path} {_digits(content)[:12]}')};"] = None
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
