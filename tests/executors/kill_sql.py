"""A program that begins sql writes in processes that kill themselves at one step.

It is started by `test_sql.py`, through `killing.py`.
With `forgetful` each attempt has a key of its own: the defect the test must find.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.executors.base import ExecutorPorts
from tallystick.executors.sql import QUERY, Database, SqlExecutor, SqlSettings
from tests.executors.attempts import KEY, done, job_of
from tests.executors.killing import die, serve


def act(place: str, sql: str, step: str, mode: str) -> None:
    """Write to a PostgreSQL at a url, or to the file `app.db` in a folder."""

    def at(here: str) -> None:
        if here == step:
            die()

    remote = place.startswith("postgresql:")
    ports = ExecutorPorts(Path("/nowhere" if remote else place) / ".tally", None, lambda: 0)
    url = place if remote else "sqlite:app.db"
    settings = SqlSettings({"app": Database(url, write=True)})
    key = KEY if mode == "sound" else b"other".ljust(32)
    params = {"db": "app", "sql": sql, "args": [], "mode": "write"}
    done(SqlExecutor(settings, ports, at), job_of(QUERY, params, dispatch_key=key))


if __name__ == "__main__":
    serve(act)
