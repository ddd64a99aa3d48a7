"""Planted defects of the guards: of who may, of what is read, and of what is walled in.

Each takes one check away that the product makes on purpose; `kit/planted.py` starts a node with it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tallystick.api import front, who, wire
from tallystick.api.who import Door
from tallystick.authority import paths
from tallystick.authority.denial import Denial
from tallystick.authority.policy import PolicyVerdict, Rules
from tallystick.executors import isolate
from tallystick.executors.base import Failed, Ok
from tallystick.executors.file import FileExecutor
from tallystick.executors.http_guard import GrantGuard
from tallystick.executors.scrub import Scrubber
from tallystick.kernel import settle
from tallystick.modules.wasm import WasmLane
from tallystick.values.expr import ExpressionFault
from tallystick.values.expr.expression import Expression
from tests.executors.test_http_scope import Credulous


def everywhere(name: str, good: Any, broken: Any) -> None:
    """Put a broken function in place of a good one, wherever it was imported."""
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is good:
            setattr(module, name, broken)


def policy_always_allows() -> None:
    """No rule of a policy ever says no."""
    judge = Rules.judge

    def kind(self: Rules, facts: Any) -> Any:
        found = judge(self, facts)
        return (
            PolicyVerdict("kit/all@1", 1, "all", "allow", None, None)
            if isinstance(found, Denial)
            else found
        )

    Rules.judge = kind  # type: ignore[method-assign]  # a defect is planted
    Rules.standing = lambda _self, _facts: None  # type: ignore[assignment, method-assign]  # planted


def seals_not_checked() -> None:
    """Whoever brings a receipt is believed."""
    refusal = settle._refusal

    def believing(world: Any, given: Any, intent: Any) -> str | None:
        found = refusal(world, given, intent)
        return None if found in ("bad_seal", "untrusted_key") else found

    settle._refusal = believing  # a defect is planted


def payloads_not_read() -> None:
    """What an executor says is taken as it comes."""
    settle._readable = lambda _world, _effect, receipt: receipt.payload  # type: ignore[assignment]  # a defect is planted


def scopes_not_asked() -> None:
    """Whoever is known may do everything."""
    front.check_scope = lambda *_: None  # type: ignore[attr-defined]  # a defect is planted


def no_door() -> None:
    """Nobody looks at Host and Origin, and any body is read as JSON."""
    Door.check = lambda *_: None  # type: ignore[method-assign]  # a defect is planted
    wire.check_type = lambda *_, **__: None  # a defect is planted


def bodies_unbounded() -> None:
    """A body is read whatever its size, by a reader that knows no depth."""
    wire.document_of = lambda body, _kind: json.loads(body)  # type: ignore[assignment]  # a defect is planted


def paths_as_they_come() -> None:
    """A file is written wherever its path leads."""

    async def careless(self: FileExecutor, job: Any, _report: Any) -> Any:
        params = job.params
        try:
            path = Path(self._settings.workspaces["project"]) / params["path"]
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
            file = os.open(path, flags, 0o644)
            os.write(file, params["content"])
            os.close(file)
        except (OSError, ValueError) as why:
            return Failed("io", "file.failed", str(why))  # type: ignore[arg-type]
        receipt = {"path": params["path"], "pre_id": None, "post_id": None, "status": "written"}
        return Ok(receipt)

    FileExecutor.perform = careless  # type: ignore[assignment, method-assign]  # a defect is planted
    everywhere("unclean", paths.unclean, lambda _path: None)


def addresses_not_judged() -> None:
    """A redirect is followed wherever it leads."""
    GrantGuard.hop = Credulous.hop  # type: ignore[method-assign,assignment]  # planted
    GrantGuard.refuses = Credulous.refuses  # type: ignore[method-assign,assignment]  # planted


def nothing_scrubbed() -> None:
    """What an executor says is kept as it said it."""
    Scrubber.of = classmethod(lambda cls, *_: cls({}))  # type: ignore[method-assign,assignment]


def worlds_not_asked() -> None:
    """A token of one world is good for all."""
    everywhere("may_enter", who.may_enter, lambda *_: True)


def no_walls() -> None:
    """Programs run with bounds, and without walls around them."""
    read = isolate.read_bounds

    def open_bounds(settings: Any) -> Any:
        return read({**settings, "isolation": "rlimits"})

    everywhere("read_bounds", read, open_bounds)


def faults_are_true() -> None:
    """A guard that cannot be evaluated counts as one that is true."""
    finish = Expression._finish  # type: ignore[attr-defined]

    def kind(self: Expression, run: Any) -> Any:
        try:
            return finish(self, run)
        except ExpressionFault:
            return True

    Expression._finish = kind  # type: ignore[attr-defined]  # a defect is planted


def fuel_by_chance() -> None:
    """How much a module may compute hangs on the machine, so faults do not repeat."""
    tick = WasmLane.tick

    def lucky(self: WasmLane, *given: Any) -> Any:
        found = tick(self, *given)
        used = int(time.monotonic_ns() % 1000)
        return found._replace(fuel=used) if hasattr(found, "fuel") else found

    WasmLane.tick = lucky  # type: ignore[assignment, method-assign]  # a defect is planted


DEFECTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        policy_always_allows,
        seals_not_checked,
        payloads_not_read,
        scopes_not_asked,
        no_door,
        bodies_unbounded,
        paths_as_they_come,
        addresses_not_judged,
        nothing_scrubbed,
        worlds_not_asked,
        no_walls,
        faults_are_true,
        fuel_by_chance,
    )
}
