"""Workers that die: their runs are taken over, settled once, and given up in the end."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts, Ok
from tallystick.executors.playbook import PlaybookExecutor
from tallystick.kernel.inputs import Operate
from tallystick.model.records import Dropped, EffectAttempted, ReceiptSettled
from tallystick.playbooks.document import load
from tallystick.values import canon
from tests.cli.crew import Crew
from tests.executors.jobs import Heard, MemoryBlobs, job
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import done

TEXT = HEAD + "workflow:\n  - {step: a, tool: {kind: artifact, action: get}%s}\n"
LIMIT = ", spec: {policy: {lifecycle: {%s}}}"


@pytest.mark.clause("N-23", "K-47")
def test_a_receipt_of_an_older_attempt_settles_nothing() -> None:
    """PB-19: the next attempt is journaled; the old receipt is dropped, recorded; one is done."""
    rig = PlayRig()
    rig.request(TEXT % "")
    old = rig.jobs.all[-1]
    rig.do(Operate(rig.clock.sample(), "attempt", "node", "lease_lost", intent=old.intent))
    rig.run()
    assert rig.settle(old, done("old")).detail == "stale_attempt"
    assert rig.net()["status"] is None
    new = rig.jobs.all[-1]
    assert new.attempt == 2
    rig.settle(new, done("new"))
    net = rig.net()
    assert (net["status"], net["results"]["a"]["v"]) == ("success", {"v": "new"})
    assert len(rig.records(ReceiptSettled)) == len(rig.records(EffectAttempted)) == 1
    assert [record.reason for record in rig.records(Dropped)] == ["stale_attempt"]


@pytest.mark.clause("N-23", "N-03")
@pytest.mark.parametrize(
    ("rules", "attempt", "lost"),
    [
        ("", 1, False),
        ("", 4, False),
        ("", 5, True),
        (LIMIT % "max_takeovers: 1", 2, False),
        (LIMIT % "max_takeovers: 1", 3, True),
        (LIMIT % "on_takeover: fail", 1, False),
        (LIMIT % "on_takeover: fail", 2, True),
    ],
)
def test_takeovers_have_a_limit(tmp_path: Path, rules: str, attempt: int, lost: bool) -> None:
    """PB-19: after max_takeovers, or at the first where it must not rerun, the run is given up."""
    rig = PlayRig()
    rig.request(TEXT % rules)

    params: dict[str, Any] = canon.decode(rig.jobs.all[-1].params)
    blobs = MemoryBlobs()
    blobs.put(load(TEXT % rules).bytes)
    executor = PlaybookExecutor({}, ExecutorPorts(tmp_path, None, lambda: 0), 1)
    given = replace(job("sys/playbook.step@1", params, blobs=blobs), attempt=attempt)
    found = asyncio.run(executor.perform(given, Heard()))
    assert isinstance(found, Ok)
    error = found.value["error"]
    # Without a takeover too many the task itself is tried, and finds no such result.
    assert (error["kind"] == "worker_lost") == lost


EXECUTOR = '''
import asyncio, os
from pathlib import Path
from tallystick.executors.base import Ok, Repeat


class Steps:
    """Performs steps of playbooks: notes each start, waits while a file `hold` is there."""

    name = "playbook"
    effects = frozenset({"sys/playbook.step@1"})
    repeat: Repeat = "again"
    slots = 4

    def __init__(self, settings, ports):
        self.folder = Path(os.environ["PAYMENTS_FOLDER"])

    async def perform(self, job, report):
        with (self.folder / "calls").open("a") as file:
            file.write(f"{job.params['step']} {job.attempt} {os.getpid()}\\n")
        while (self.folder / "hold").exists():
            await asyncio.sleep(0.02)
        empty = dict.fromkeys(("ref", "error", "frame", "wish"))
        return Ok({"status": "ok", "result": job.attempt, "size": 1, "patches": {}, "results": {},
                   "tasks": [], **empty})

    async def cancel(self, job):
        pass

    async def close(self):
        pass
'''


# tidy: one life of a run, with two workers.
@pytest.mark.clause("N-03", "N-23")
def test_a_killed_worker_is_taken_over(tmp_path: Path) -> None:
    """PB-19: kill -9 in the middle of a run; another worker makes the next attempt, done once."""
    (tmp_path / "crew.py").write_text(EXECUTOR)
    (tmp_path / "app.py").write_text("from tallystick import Bundle\n\napp = Bundle('none')\n")
    (tmp_path / "tally.toml").write_text(
        '[executors]\nroutes = { "playbook.step" = "pool:cards" }\n'
    )
    (tmp_path / "book.yaml").write_text(TEXT % "")
    crew = Crew(tmp_path, "playbook.step")
    try:
        (tmp_path / "hold").touch()
        first = crew.worker(lease_s=3.0, spec="crew:Steps")
        words = ("playbook", "run", str(tmp_path / "book.yaml"), "-w", "plays")
        begun = crew.node.json(*words, "--detach")
        name = begun["execution"]
        trusted = crew.node.run(
            "key", "trust", crew.key, "--executors", "playbook.step", "-w", "plays"
        )
        assert trusted.code == 0, trusted.err
        crew.node.wait(lambda: len(crew.calls()) == 1)
        first.send_signal(signal.SIGKILL)
        (tmp_path / "hold").unlink()
        crew.worker(spec="crew:Steps")

        def shown() -> Any:
            return crew.node.json("playbook", "show", name, "-w", "plays")

        crew.node.wait(lambda: shown()["status"] != "running")
        seen = shown()
        assert (seen["status"], seen["step_runs"]) == ("success", {"a": 1})
        assert seen["results"]["a"] >= 2
        rows = crew.node.json("playbook", "show", name, "-w", "plays", "--events")["items"]
        words = [row["event_type"] for row in rows]  # type: ignore[assignment]
        assert (words.count("step.done"), words.count("step.taken_over")) == (1, 1)
    finally:
        crew.close()
