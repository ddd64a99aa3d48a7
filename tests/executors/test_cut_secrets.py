"""What is cut off somewhere in the middle of a secret shows nothing of it either (I41)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import INLINE_BYTES_MAX, ExecutorPorts, Ok
from tallystick.executors.isolate import Bounds
from tallystick.executors.python import RUN as PYTHON
from tallystick.executors.python import PythonExecutor
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber
from tallystick.executors.shell import RUN, ShellExecutor
from tests.executors.attempts import KeptBlobs, failed, job_of, no_report
from tests.executors.jobs import secret
from tests.executors.test_playbook_tasks import play
from tests.playbooks.nets import HEAD

CANARY = "canary-0123456789-abcdefghij"
SAYS = 'head -c %d /dev/zero | tr "\\0" x; printf %%s "$KEY"'


def keep(folder: Path, value: str) -> None:
    """A secret of the node that `play` starts there."""
    place = folder / "data/.tally/secrets"
    place.mkdir(mode=0o700, parents=True)
    (place / "CANARY").write_text(value, "utf-8")
    (place / "CANARY").chmod(0o600)


def said(folder: Path, before: int, bytes_max: int) -> tuple[bytes, bytes]:
    """What a program says that says a secret behind so many letters: inline, and in the store."""
    blobs = KeptBlobs()
    params = {"argv": ["sh", "-c", SAYS % before], "env": {"KEY": secret("k")}}
    job = job_of(RUN, params, secrets={"/env/KEY": CANARY}, grant={"text": True})
    scrubber = Scrubber.of(job)
    executor = ShellExecutor(
        Bounds("rlimits", bytes_max=bytes_max), ExecutorPorts(folder / ".tally", None, lambda: 0)
    )

    async def run() -> Any:
        try:
            asked = replace(job, blobs=ScrubbedBlobs(blobs, scrubber))
            return await executor.perform(asked, no_report)
        finally:
            await executor.close()

    outcome = scrubber.outcome(asyncio.run(run()))
    assert isinstance(outcome, Ok), outcome
    ref = outcome.value["stdout_ref"]
    return outcome.value["stdout"], b"" if ref is None else blobs.get(ref) or b""


@pytest.mark.invariant("I41")
@pytest.mark.parametrize(
    ("before", "bytes_max"), [(INLINE_BYTES_MAX - 20, 1 << 20), (100, 120), (100_000, 100_020)]
)
def test_an_output_that_ends_in_a_secret_ends_before_it(
    tmp_path: Path, before: int, bytes_max: int
) -> None:
    """06 section 5: inline, and at the limit of the output, no beginning of the value is left."""
    inline, kept = said(tmp_path, before, bytes_max)
    for body in (inline, kept):
        assert CANARY[:6].encode() not in body
        assert body.startswith(b"x" * min(before, len(body) - 40))


@pytest.mark.invariant("I41")
@pytest.mark.parametrize(
    ("value", "before"),
    [(CANARY, 185), ("k\N{LATIN SMALL LETTER E WITH ACUTE}y-0123456789-abcdef", 100)],
)
def test_a_message_that_ends_in_a_secret_ends_before_it(
    tmp_path: Path, value: str, before: int
) -> None:
    """06 section 5: the beginning of an error output is quoted, and no half of a secret."""
    keep(tmp_path, value)
    text = (
        HEAD
        + """keychain:
  - {name: k, provider: file, map: {word: CANARY}}
workflow:
  - step: a
    tool:
      - name: one
        kind: shell
        cmd: [sh, -c, 'printf %0BEFOREd 0 >&2; printf %s "$KEY" >&2; exit 3']
        env: {KEY: "{{ keychain.k.word }}"}
"""
    ).replace("BEFORE", str(before))
    found = play(tmp_path, text, ("shell",), shell={"isolation": "rlimits"})
    (row,) = found.net["failures"]
    assert "exit code 3" in row["message"]
    assert "canary" not in row["message"]
    assert "-0123" not in row["message"]


@pytest.mark.invariant("I41")
def test_an_output_of_a_playbook_that_is_cut_in_a_secret_ends_before_it(tmp_path: Path) -> None:
    """06 section 5: a task's output cut at `max_bytes` kept the first half of a keychain value."""
    keep(tmp_path, CANARY)
    text = (
        HEAD
        + """keychain:
  - {name: k, provider: file, map: {word: CANARY}}
workflow:
  - step: a
    tool:
      - name: one
        kind: shell
        cmd: [sh, -c, 'printf %0100d 0; printf %s "$KEY"']
        env: {KEY: "{{ keychain.k.word }}"}
"""
    )
    found = play(tmp_path, text, ("shell",), shell={"isolation": "rlimits", "max_bytes": 120})
    assert found.status == "success", found.net["failures"]
    said = found.net["results"]["a"]["v"]["v"]["stdout"]
    assert said.startswith("0" * 100)
    assert CANARY[:6] not in said


@pytest.mark.invariant("I41")
def test_a_traceback_that_is_cut_in_a_secret_ends_before_it(tmp_path: Path) -> None:
    """06 section 5: what code said on its error output is kept, and no half of a secret."""
    blobs, known = KeptBlobs(), Scrubber({"k": CANARY})
    code = f"import sys\ndef main():\n    sys.stderr.write('x' * 100 + '{CANARY}')\n    1 / 0"
    job = job_of(PYTHON, {"code": code, "args": None}, blobs=ScrubbedBlobs(blobs, known))
    ports = ExecutorPorts(tmp_path / ".tally", None, lambda: 0)
    executor = PythonExecutor(Bounds("rlimits", bytes_max=120), ports)
    found = failed(executor, job)
    kept = blobs.get(found.details_ref or "")
    assert kept == b"x" * 100


@pytest.mark.invariant("I41")
def test_many_rows_that_hold_a_secret_are_rows_without_it(
    tmp_path: Path,
) -> None:
    """06 section 5: a document is scrubbed as a value; in its bytes nothing can be replaced."""
    keep(tmp_path, CANARY)
    with closing(sqlite3.connect(tmp_path / "app.db")) as db, db:
        db.execute("CREATE TABLE t (a TEXT, b TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [("x" * 1_000, CANARY)] * 100)
    text = (
        HEAD
        + """keychain:
  - {name: k, provider: file, map: {word: CANARY}}
workflow:
  - step: a
    tool:
      - name: one
        kind: sql
        database: app
        command: "select a, b from t"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {
          count: "{{ outcome.result.row_count }}", code: "{{ outcome.error.code }}"}}}}]}}
"""
    )
    dbs = {"app": {"url": f"sqlite://{tmp_path}/app.db"}}
    found = play(tmp_path, text, ("sql",), sql={"dbs": dbs})
    assert found.status == "success", found.net["failures"]
    assert found.ctx == {"count": 100, "code": None}
    assert CANARY not in str(found.net)
