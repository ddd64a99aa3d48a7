"""The tool `duckdb` of a playbook: questions to an engine in memory, where the driver is installed.

Nothing outside is reached: files, extensions and settings are shut off in the engine itself.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from tallystick.executors.sql_values import Query, SqlError, Taken, numbered
from tallystick.playbooks.tasks import Perform, failure

_ROWS_MAX: Final = 100_000
_BYTES_MAX: Final = 16 << 20
_PAGE: Final = 500
_LOOK_S: Final = 0.02
_SHUT: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "512MB",
    "threads": "1",
}

Outcome = dict[str, Any]


async def query(act: Perform) -> Outcome:
    """The rows of the last statement as maps; error `task.unserved` without the driver.

    A cancelled or late task interrupts the engine, and ends when the engine has ended.
    """
    if find_spec("duckdb") is None:
        message = "the driver duckdb is not installed here: pip install tallystick[duckdb]"
        return _error("not_found", "task.unserved", message)
    if act.inputs.get("database") not in (None, "", ":memory:"):
        return _error("denied", "cap.exceeded", "duckdb works in memory only")
    asked = Query(
        str(act.inputs["command"]), act.inputs.get("params"), True, None, _ROWS_MAX, _BYTES_MAX
    )
    base = await asyncio.to_thread(_opened)
    work = asyncio.create_task(asyncio.to_thread(_outcome, base, asked))
    try:
        return await asyncio.shield(work)
    finally:
        # An engine hears an interrupt only while it runs, so one before its start is lost.
        while not work.done():
            base.interrupt()
            await asyncio.wait({work}, timeout=_LOOK_S)
        base.close()


def _opened() -> Any:
    base = import_module("duckdb").connect(":memory:", config=_SHUT)
    base.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
    return base


def _outcome(base: Any, asked: Query) -> Outcome:
    driver = import_module("duckdb")
    try:
        return {"status": "ok", "result": _rows(base, asked)}
    except SqlError as why:
        return _error(why.kind, why.code, why.message)
    except driver.ConstraintException as why:
        return _error("db_constraint", "sql.constraint", str(why))
    except driver.OutOfMemoryException as why:
        return _error("client_error", "sql.limit", str(why))
    except driver.PermissionException as why:
        return _error("denied", "sql.refused", str(why))
    except driver.Error as why:
        return _error("client_error", "sql.invalid", str(why))


def _rows(base: Any, asked: Query) -> list[dict[str, Any]]:
    text, values = numbered(asked)
    made = base.execute(text, values) if values else base.execute(text)
    names = [column[0] for column in made.description or ()]
    taken = Taken(asked)
    while page := made.fetchmany(_PAGE):
        if not all(taken.take(row) for row in page):
            raise SqlError("sql.too_large", f"there are more than {_ROWS_MAX} rows", "client_error")
    return [dict(zip(names, row, strict=True)) for row in taken.rows]


def _error(kind: str, code: str, message: str) -> Outcome:
    return {"status": "error", "error": failure(kind, code, message)}
