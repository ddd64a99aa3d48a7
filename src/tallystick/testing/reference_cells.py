"""The cells of the reference model: mailboxes, who is ready, and who rests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tallystick.testing import program

Cell = dict[str, Any]
Ident = tuple[str, bytes]
Takes = Callable[[Ident], bool]


def born(mail: list[Any], seq: int) -> Cell:
    """A cell as it begins."""
    first: Cell = {"state": None, "status": "running", "mail": mail, "born": seq}
    return {**first, "open": {}, "keys": {}, "callers": {}}


def verdict_of(keys: dict[Any, Any], spec: program.Spec, asked: Mapping[str, Any]) -> str:
    """`open`, `attach`, or the code of a denial; a fresh key is noted."""
    effect, params, key = asked["effect"], asked["params"], asked.get("idempotency_key")
    if effect not in spec.effects:
        return "effect.undeclared"
    if effect == program.CHARGE and type(params["order"]) is not str:
        return "effect.params_invalid"
    if key is None or (effect, key) not in keys:
        keys[effect, key] = {"params": params, "settled": None}
        return "open"
    return "attach" if keys[effect, key]["params"] == params else "effect.key_conflict"


def over(
    limits: Mapping[str, int], cell: Cell, spec: program.Spec, out: Any, takes: Takes
) -> str | None:
    """The limit that an output passes, or None."""
    if len(out.effects) > limits["effects_max"]:
        return "effects_max"
    keys = dict(cell["keys"])
    fresh = [asked for asked in out.effects if verdict_of(keys, spec, asked) == "open"]
    undone = [a["params"]["issuer_ref"] for a in fresh if a["effect"] == program.UNDO]
    open_ = [ref for ref in cell["open"].values() if ref not in undone]
    open_ += [a["issuer_ref"] for a in fresh if _stays(a, takes) and a["issuer_ref"] not in undone]
    return "inflight_max" if len(open_) > limits["inflight_max"] else None


def _stays(asked: Mapping[str, Any], takes: Takes) -> bool:
    """False for what ends in the frame of its tick: it was never in flight."""
    effect, params = asked["effect"], asked["params"]
    if effect == program.CALL:
        return takes((params["workflow"], params["key"]))
    return effect not in (program.UNDO, program.SPAWN)


class Cells:
    """Every cell that is there, and the ring of those that are ready."""

    def __init__(self) -> None:
        self.cells: dict[Ident, Cell] = {}
        self.ring: list[Ident] = []
        self.ended: dict[Ident, str] = {}  # within one frame

    def push(self, ident: Ident, entry: dict[str, Any]) -> None:
        """One more entry; a completed entity reopens."""
        cell = self.cells.setdefault(ident, born([], entry["seq"]))
        cell["mail"].append(entry)
        if cell["status"] == "completed":
            cell["status"] = "running"
        self.requeue(ident)

    def requeue(self, ident: Ident) -> None:
        """A cell with mail that may run stands in the ring, once."""
        cell = self.cells.get(ident)
        ready = cell is not None and cell["mail"] and cell["status"] == "running"
        if ready and ident not in self.ring:
            self.ring.append(ident)

    def rest(self, ident: Ident) -> None:
        """A cell that may not run leaves the ring."""
        self.ring = [each for each in self.ring if each != ident]

    def takes(self, ident: Ident) -> bool:
        """True when an event for this cell is not lost."""
        status = self.ended.get(ident) or self.cells.get(ident, {}).get("status")
        return status != "failed" and (status != "completed" or program.SPECS[ident[0]].is_entity)

    def routed(self, schema: str, value: Mapping[str, Any]) -> tuple[list[Ident], list[str]]:
        """The cells that an event goes to, in manifest order, and why others do not get it."""
        wanted, lost = [], []
        for ident, create in program.routes_of(schema, value):
            missing = ident not in self.cells or self.ended.get(ident) == "deleted"
            if missing and not create:
                lost.append("no_instance")
            elif not missing and not self.takes(ident):
                lost.append("terminal")
            else:
                wanted.append(ident)
        return wanted, lost

    def busy(self) -> list[str]:
        """The cells that stand in the way of quiescence."""
        found = []
        for (workflow, key), cell in self.cells.items():
            rests = program.SPECS[workflow].is_entity and cell["status"] == "running"
            if cell["mail"] or not (rests or cell["status"] in ("completed", "failed")):
                found.append(f"cell {workflow} {key.hex()}")
        return found
