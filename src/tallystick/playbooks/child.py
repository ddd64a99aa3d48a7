"""Sub-playbooks: a task that is an execution of its own, called and waited for (07 section 5).

A path is looked up in the catalogue first; then the child is called, as one cell calls another.
Every grant of the parent is passed on to it: it may use the tools that its parent may use, and
what is revoked for the parent is revoked for the child.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tallystick.playbooks import files
from tallystick.playbooks.tasks import failure
from tallystick.playbooks.values import plain
from tallystick.values import canon

if TYPE_CHECKING:  # a play uses these functions
    from tallystick.playbooks.play import Play

CALL: Final = "sys/workflow.call@1"
READ: Final = "sys/cell.read@1"
CATALOG: Final = "sys/playbook.catalog@1"
_HASH_TEXT: Final = 71

Outcome = dict[str, Any]


def ask(play: Play, name: str, ref: str, unit: dict[str, Any]) -> Outcome | None:
    """Ask for a child, or for its document; an outcome when that is pointless."""
    from tallystick.playbooks.play import Asked  # noqa: PLC0415 - it uses this room

    wish = unit["wish"]
    depth = depth_of(play.state)
    if depth >= play.plan.spec["limits"]["max_depth"]:
        return _error("unknown", "P403", f"over {depth} executions inside each other")
    if wish["hash"] is None:
        params = {"workflow": CATALOG, "key": canon.encode(str(wish["path"]))}
        play.asked.append(Asked(READ, params, ref))
        return None
    document = _document(play, str(wish["hash"]))
    if document is None:
        return _error("not_found", "playbook.unknown", f"no playbook {wish['hash']}")
    child = f"{play.state['execution']}.{ref.replace('#', '.').replace('/', '.')}"
    unit["wish"] = {**wish, "child": child}
    play.asked.append(Asked(CALL, _call(play, name, unit, document), ref))
    return None


def _call(play: Play, name: str, unit: Mapping[str, Any], document: bytes) -> dict[str, Any]:
    """The params of the call: the child's request is like any other, and names its parent."""
    state, wish = play.state, unit["wish"]
    parent = {
        "execution": state["execution"],
        "run": name,
        "depth": depth_of(state) + 1,
        "return_step": wish["return_step"],
        "iter": unit["frame"]["iter"],
        **({} if files.stamp_of(state) is None else {"stamp": state["parent"]["stamp"]}),
    }
    value = {
        "execution": wish["child"],
        "document": document,
        "workload": wish["args"],
        "grants": {},
        "principal": state["principal"],
        "parent": parent,
    }
    return {
        "workflow": "sys/playbook@1",
        "key": canon.encode(wish["child"]),
        "payload": {"schema": "sys/PlayRequested@1", "value": canon.encode(value)},
        "caps": {"*": {"from": "*"}},
    }


def depth_of(state: Mapping[str, Any]) -> int:
    """How many executions an execution is inside of."""
    parent = state["parent"]
    return 0 if parent is None else int(parent["depth"])


def _document(play: Play, name: str) -> bytes | None:
    """The normal form of a playbook; the hash stands in the document or in what was just read."""
    if len(name) != _HASH_TEXT or not name.startswith("sha256:"):
        return None
    play.values.raw(play.doc)
    return play.values.raw(name)


def found(unit: dict[str, Any], payload: Mapping[str, Any]) -> Outcome | None:
    """The catalogue has answered: the newest version is called; an outcome when there is none."""
    if not payload["found"] or payload["state"] is None:
        path = unit["wish"]["path"]
        return _error("not_found", "playbook.unknown", f"no playbook is published as {path}")
    newest = canon.decode(payload["state"])["versions"][-1]["hash"]
    unit["wish"] = {**unit["wish"], "hash": newest}
    return None


def answered(play: Play, payload: Mapping[str, Any]) -> Outcome:
    """A child is over: its result, or its failure as an error."""
    if payload["status"]["$tag"] == "failed":
        return _error("unknown", payload["code"] or "child.failed", payload["message"] or "")
    result = None if payload["result"] is None else canon.decode(payload["result"])
    if result is None or result["status"] == "cancelled":
        return _error("cancelled", "child.cancelled", "the child was cancelled")
    kept = result["value"]
    value = None if kept is None else plain(play.values.read(kept))
    return {"status": "ok", "result": value, "meta": {"execution": result["execution"]}}


def _error(kind: str, code: str, message: str) -> Outcome:
    return {"status": "error", "error": failure(kind, code, message)}
