"""The shell executor: one program with its arguments, never a text for a shell to read.

It is off until somebody enables it.
A second attempt runs the program again; nobody can know how far the first one came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.authority.enforcers import builtin
from tallystick.executors.base import (
    INLINE_BYTES_MAX,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
    pointer,
)
from tallystick.executors.isolate import Bounds, Program, read_bounds
from tallystick.executors.isolate_jobs import SandboxJobs
from tallystick.executors.isolate_watch import Ended
from tallystick.executors.scrub import Scrubber

RUN: Final = "sys/shell.run@1"


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> ShellExecutor:
    """The executor of `[executors.shell]`."""
    return ShellExecutor(read_bounds(settings), ports)


class ShellExecutor:
    """Performs `sys/shell.run@1`; any exit code is ok, only no exit at all is a failure."""

    name = "shell"
    effects = frozenset((RUN,))
    repeat: Repeat = "again"

    def __init__(self, bounds: Bounds, ports: ExecutorPorts) -> None:
        self.slots = bounds.slots
        self._jobs = SandboxJobs("shell", bounds, ports)

    async def perform(self, job: Job, report: Report) -> Outcome:  # noqa: ARG002 - the protocol
        """Run the program in its sandbox."""
        program = _program(job)
        if isinstance(program, Failed):
            return program
        ended = await self._jobs.run(job, program)
        return ended if isinstance(ended, Failed) else _receipt(job, ended)

    async def cancel(self, job: Job) -> None:
        """Kill the sandbox."""
        self._jobs.cancel(job)

    async def close(self) -> None:
        """Kill every sandbox and wait for the threads."""
        await self._jobs.close()


def _program(job: Job) -> Program | Failed:
    params = job.params
    answer = builtin(
        "shell", {"cap_params": job.grant or {}, "params": params, "effect": job.effect}
    )
    if not answer.ok:
        return Failed("scope", "shell.not_granted", answer.message or "not granted")
    env = _env(job)
    if isinstance(env, Failed):
        return env
    stdin = b""
    if params.get("stdin_ref") is not None:
        found = job.blobs.get(params["stdin_ref"])
        if found is None:
            return Failed("not_found", "shell.stdin_missing", "the world has no such blob")
        stdin = found
    return Program(
        argv=tuple(params["argv"]),
        env=env,
        cwd=params.get("cwd"),
        stdin=stdin,
        net=params.get("net") is True,
    )


def _env(job: Job) -> dict[str, str] | Failed:
    """The variables of the request: plain texts, and secrets as they were resolved."""
    made: dict[str, str] = {}
    for name, value in (job.params.get("env") or {}).items():
        plain = (
            value["$value"] if value["$tag"] == "literal" else job.secrets.get(pointer("env", name))
        )
        if plain is None:
            return Failed("auth", "shell.secret_missing", f"the secret of {name} is not resolved")
        if not name or "=" in name or "\x00" in name + plain:
            return Failed("client_error", "shell.env", "a variable has a name and a text")
        made[name] = plain
    return made


def _receipt(job: Job, ended: Ended) -> Ok:
    value: dict[str, Any] = {
        "exit_code": ended.exit_code,
        "truncated": ended.truncated,
        "timings": {"total_ns": ended.total_ns},
    }
    scrubber = Scrubber.of(job)
    for name, said in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        # Of a secret that is cut in two nobody finds the first half, so those go before the cut.
        body = scrubber.cut_octets(said) if ended.truncated else said
        long = len(body) > INLINE_BYTES_MAX
        value[name] = scrubber.octets(body)[:INLINE_BYTES_MAX] if long else body
        value[f"{name}_ref"] = job.blobs.put(body) if long else None
    return Ok(value)
