"""The tool `duckdb` of a playbook: queries in memory, where the driver is installed.

Nothing outside is reached: files and extensions are shut off in the engine itself.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tallystick.playbooks.tasks import Perform, failure

Outcome = dict[str, Any]


async def query(act: Perform) -> Outcome:
    """The rows of the last statement as maps; error `task.unserved` without the driver."""
    if find_spec("duckdb") is None:
        return _error("not_found", "task.unserved", "the driver duckdb is not installed here")
    if act.inputs.get("database") not in (None, "", ":memory:"):
        return _error("denied", "cap.exceeded", "duckdb works in memory only")
    return await asyncio.to_thread(_rows, str(act.inputs["command"]), act.inputs.get("params"))


def _rows(command: str, params: Any) -> Outcome:
    duckdb = import_module("duckdb")
    base = duckdb.connect(":memory:", config={"enable_external_access": "false"})
    try:
        made = base.execute(command, params) if params else base.execute(command)
        names = [column[0] for column in made.description or ()]
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in made.fetchall()]
    except duckdb.Error as why:
        return _error("client_error", "duckdb.error", str(why))
    finally:
        base.close()
    return {"status": "ok", "result": rows}


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _error(kind: str, code: str, message: str) -> Outcome:
    return {"status": "error", "error": failure(kind, code, message)}
