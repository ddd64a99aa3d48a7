"""The python executor: a function of given code, in a fresh interpreter behind walls.

It is off until somebody enables it.
Arguments and result are JSON: a map is passed by name, a list by place, null not at all.
What the code raises is an error of the request, and its traceback is kept.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final

from tallystick.authority.enforcers import builtin
from tallystick.executors import python_inside
from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok, Outcome, Repeat, Report
from tallystick.executors.isolate import Bounds, Program, read_bounds
from tallystick.executors.isolate_jobs import SandboxJobs
from tallystick.executors.isolate_watch import Ended
from tallystick.executors.scrub import Scrubber

RUN: Final = "sys/python.run@1"
_INSIDE: Final = inspect.getsource(python_inside)
_AHEAD: Final = ("json", "site")
_TEXT_MAX: Final = 65_536


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> PythonExecutor:
    """The executor of `[executors.python]`."""
    return PythonExecutor(read_bounds(settings), ports)


class PythonExecutor:
    """Performs `sys/python.run@1`; the network is there when the grant gives it."""

    name = "python"
    effects = frozenset((RUN,))
    repeat: Repeat = "again"

    def __init__(self, bounds: Bounds, ports: ExecutorPorts) -> None:
        self.slots = bounds.slots
        self._bytes_max = bounds.bytes_max
        self._jobs = SandboxJobs("python", bounds, ports)

    async def perform(self, job: Job, report: Report) -> Outcome:  # noqa: ARG002 - the protocol
        """Call the entry of the code in its sandbox."""
        program = _program(job)
        if isinstance(program, Failed):
            return program
        ended = await self._jobs.run(job, program)
        if isinstance(ended, Failed):
            return ended
        if len(ended.answer) > self._bytes_max:
            return Failed("limit", "python.too_large", "the result is over the limit")
        return _outcome(job, ended)

    async def cancel(self, job: Job) -> None:
        """Kill the sandbox."""
        self._jobs.cancel(job)

    async def close(self) -> None:
        """Kill every sandbox and wait for the threads."""
        await self._jobs.close()


def _program(job: Job) -> Program | Failed:
    grant, params = job.grant or {}, job.params
    answer = builtin("python", {"cap_params": grant, "params": params, "effect": job.effect})
    if not answer.ok:
        return Failed("scope", "python.not_granted", answer.message or "not granted")
    code = _code(job)
    if isinstance(code, Failed):
        return code
    entry = params.get("entry")
    net = grant.get("network") is True
    asked = {"code": code, "entry": "main" if entry is None else entry, "args": params["args"]}
    return Program(
        argv=("python",),
        stdin=json.dumps(asked | {"net": net}).encode(),
        net=net,
        answer=True,
        code=_INSIDE,
        ahead=_AHEAD,
    )


def _code(job: Job) -> str | Failed:
    """The code, inline or by reference; exactly one of both."""
    code, ref = job.params.get("code"), job.params.get("code_ref")
    if (code is None) == (ref is None):
        return Failed("client_error", "python.code", "give code or code_ref, one of both")
    if ref is None:
        return str(code)
    found = job.blobs.get(ref)
    if found is None:
        return Failed("not_found", "python.code_missing", "the world has no such blob")
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return Failed("client_error", "python.code", "the code is not UTF-8")


def _outcome(job: Job, ended: Ended) -> Outcome:
    answer = _read(ended.answer)
    if answer is None:
        # The interpreter died of a signal or a limit, or the code ended the process.
        kept = _kept(job, ended)
        message = f"the code gave no answer and ended with exit code {ended.exit_code}"
        return Failed("crash", "python.no_answer", message, details_ref=kept)
    if "raised" in answer:
        message = f"{answer['raised']}: {answer['message']}"
        kept = _kept(job, ended)
        return Failed("client_error", "python.raised", message, details_ref=kept)
    return Ok(
        {
            "result": answer["result"],
            "stdout": _text(ended.stdout),
            "stderr": _text(ended.stderr),
            "timings": {"total_ns": ended.total_ns},
        }
    )


def _kept(job: Job, ended: Ended) -> str:
    """The error output in the store; one that was cut off ends before the secret it cut in two."""
    body = Scrubber.of(job).cut_octets(ended.stderr) if ended.truncated else ended.stderr
    return job.blobs.put(body)


def _read(body: bytes) -> dict[str, Any] | None:
    """What the sandbox answered; None when that is not an answer of ours."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(answer, dict) and (
        "result" in answer or {"raised", "message"} <= set(answer)
    )
    return answer if sound else None


def _text(body: bytes) -> str:
    """The beginning of an output as text; what is no text is replaced by a mark."""
    return body[:_TEXT_MAX].decode("utf-8", "replace")
