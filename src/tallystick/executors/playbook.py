"""The playbook executor: performs `sys/playbook.step@1`, one step-run or iteration (07).

It plays the pipeline that the cell would play, and performs each task by the executor of its
kind.
What waits long holds nobody: the run is put down with its frame, and the cell takes it up again.
"""

# tidy: a unit from its job to its receipt is one story.
from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tallystick.errors import SchemaMismatch, TallyError
from tallystick.executors import (
    file,
    http,
    llm,
    playbook_duckdb,
    playbook_files,
    playbook_sql,
    playbook_tools,
    python,
    shell,
    sql,
)
from tallystick.executors.base import (
    Executor,
    ExecutorFactory,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
)
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber
from tallystick.playbooks.plan import plan_named
from tallystick.playbooks.play import wish_of
from tallystick.playbooks.tasks import (
    Broken,
    Done,
    Layers,
    Pause,
    Perform,
    Pipeline,
    failure,
    new_frame,
)
from tallystick.playbooks.values import INLINE_MAX, Kept, Lazy, StepValue, Values, plain
from tallystick.values import canon

STEP: Final = "sys/playbook.step@1"
TAKEOVERS_MAX: Final = 3
PAUSE_MAX_S: Final = 10.0  # a longer pause holds no worker
_FIELD_MAX: Final = 512
_RESULTS_MAX: Final = 65_536
_FACTORIES: Final[Mapping[str, ExecutorFactory]] = {
    "http": http.make,
    "python": python.make,
    "shell": shell.make,
    "sql": sql.make,
    "file": file.make,
    "llm": llm.make,
}


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> PlaybookExecutor:
    """The executor of `[executors.playbook]`; `tools` holds the settings of those it may use."""
    tools: Mapping[str, Any] = settings.get("tools", {})
    inner: dict[str, Executor] = {
        name: _FACTORIES[name](given, ports) for name, given in tools.items() if name in _FACTORIES
    }
    return PlaybookExecutor(inner, ports, int(settings.get("slots", 64)))


class PlaybookExecutor:
    """Performs steps of playbooks with the executors it was given, by kind."""

    name = "playbook"
    effects = frozenset((STEP,))
    repeat: Repeat = "again"

    def __init__(self, inner: Mapping[str, Executor], ports: ExecutorPorts, slots: int) -> None:
        self.slots = slots
        self._inner = dict(inner)
        self._ports = ports
        self._appends = playbook_files.Appends()

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Play the pipeline of a unit to its end, or to where it waits."""
        plan = plan_named(job.params["doc"], lambda name: _stored(job, name))
        step = plan.steps[job.params["step"]]
        lost = _lost(job, step)
        if lost is not None:
            return lost
        try:
            secrets, keychain = self._keychain(plan.document["keychain"])
        except TallyError as why:
            return Failed("auth", why.code, why.message)
        scrubber = Scrubber(secrets)
        if secrets:  # what a tool stores by itself is scrubbed before it has a hash
            job = replace(job, blobs=ScrubbedBlobs(job.blobs, scrubber))
        resume = job.params["resume"]
        layers = _layers(job, keychain)
        pipeline = Pipeline(step, _taken_up(job), layers, plan.spec["limits"]["max_task_runs"])
        pipeline.timeout_ns = pipeline.timeout_ns or plan.spec["timeout_ns"]
        if resume is not None and resume["outcome"] is not None:
            pipeline.settle(resume["outcome"])
        told = await self._play(job, pipeline, report, scrubber)
        # Before anything of it is encoded: in bytes with lengths nothing can be replaced.
        return Ok(_receipt(job, step, plan.spec, scrubber.value(told) if secrets else told))

    async def _play(
        self, job: Job, pipeline: Pipeline, report: Report, scrubber: Scrubber
    ) -> dict[str, Any]:
        frame = pipeline.frame
        while True:
            act = pipeline.act()
            if isinstance(act, Done):
                return {"status": "ok", "result": act.result, "frame": frame}
            if isinstance(act, Broken):
                return {"status": "error", "error": act.error, "frame": frame}
            if isinstance(act, Pause):
                if act.seconds > PAUSE_MAX_S:
                    return {"status": "yield", "frame": frame, "wish": wish_of(act)}
                await asyncio.sleep(act.seconds)
                continue
            if act.kind in ("wait", "human", "playbook") or _by_cell(job, act):
                return {"status": "yield", "frame": frame, "wish": wish_of(act)}
            outcome = _quoted(await self._bounded(job, act, pipeline), scrubber)
            told = {"task": act.name, "attempt": act.attempt, "status": outcome["status"]}
            await report("task.attempt", told)
            pipeline.settle(outcome)

    async def _bounded(self, job: Job, act: Perform, pipeline: Pipeline) -> dict[str, Any]:
        seconds = None if act.timeout_ns is None else act.timeout_ns / 10**9
        began = time.monotonic()
        try:
            outcome = await asyncio.wait_for(self._task(job, act, pipeline), seconds)
        except TimeoutError:
            error = failure("timeout", "task.timeout", f"{act.name} took over {seconds} s")
            outcome = {"status": "error", "error": error}
        else:
            outcome = playbook_tools.kept(outcome)
        spent = {"duration_ms": round((time.monotonic() - began) * 1000)}
        return {**outcome, "meta": {**outcome.get("meta", {}), **spent}}

    # tidy: every way to perform a task, in order.
    async def _task(self, job: Job, act: Perform, pipeline: Pipeline) -> dict[str, Any]:
        if act.kind == "noop":
            return {"status": "ok", "result": None}
        if act.kind == "artifact":
            return playbook_tools.artifact_outcome(job, act)
        if act.kind == "secrets":
            return self._secret(act)
        if act.kind == "duckdb":
            return await playbook_duckdb.query(act)
        if act.kind in ("sql", "postgres"):
            databases = self._inner.get("sql")
            if databases is None:
                return _disabled(act)
            return await playbook_sql.perform(databases, job, act, _quiet)
        try:
            asked = _asked(act, pipeline)
        except (AttributeError, KeyError, TypeError, ValueError) as why:
            # What a template makes of an input is not known before it is filled.
            message = f"the inputs of {act.name} do not fit {act.kind}: {why}"
            return {"status": "error", "error": failure("client_error", "task.inputs", message)}
        if asked is None:
            error = failure("client_error", "task.unserved", playbook_tools.unasked(act))
            return {"status": "error", "error": error}
        effect, params = asked
        inner = self._inner.get(effect.partition("/")[2].partition(".")[0])
        if inner is None:
            return _disabled(act)
        given = playbook_tools.inner_job(job, act, effect, params)
        if playbook_tools.is_text(act) and not (given.grant or {}).get("text"):
            message = "a command as a text needs a grant with text: true"
            error = failure("denied", "shell.not_granted", message)
            return {"status": "error", "error": error}
        if act.kind == "file" and act.inputs["action"] == "append":
            found = await self._appends.append(inner, given, _quiet)
        else:
            found = await inner.perform(given, _quiet)
        if isinstance(found, Failed):
            return playbook_tools.failed(found)
        if act.kind == "llm":
            return playbook_tools.llm_outcome(given, found.value, act.inputs.get("schema"))
        return _outcome(act.kind, given, found.value)

    def _secret(self, act: Perform) -> dict[str, Any]:
        """Whether a secret is there, never its value."""
        ref = f"{act.inputs['provider']}:{act.name}"
        try:
            assert self._ports.secrets is not None, "a node has a place for secrets"
            self._ports.secrets.value(ref)
        except TallyError as why:
            error = failure("not_found", why.code, f"no secret {act.name}")
            return {"status": "error", "error": error}
        return {
            "status": "ok",
            "result": {"name": act.name, "ref": f"secret://{ref}", "present": True},
        }

    def _keychain(self, entries: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, Any]]:
        """The values of a keychain: by a name of their own for scrubbing, and by entry."""
        flat: dict[str, str] = {}
        named: dict[str, Any] = {}
        for entry in entries:
            named[entry["name"]] = {}
            for field, key in entry["map"].items():
                assert self._ports.secrets is not None, "a node has a place for secrets"
                value = self._ports.secrets.value(f"{entry['provider']}:{key}")
                named[entry["name"]][field] = value
                flat[f"keychain.{entry['name']}.{field}"] = value
        return flat, named

    async def cancel(self, job: Job) -> None:
        """The task of the run is cancelled with it, and so is what it performs."""

    async def close(self) -> None:
        """Give back what the inner executors hold."""
        for inner in self._inner.values():
            await inner.close()


def _quoted(outcome: dict[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """The outcome with what its error quotes, which may end in the middle of a secret."""
    error = outcome.get("error")
    if error is None:
        return outcome
    return {**outcome, "error": {**error, "message": scrubber.cut_text(error["message"])}}


def _disabled(act: Perform) -> dict[str, Any]:
    message = (
        f"the executor of {act.kind} is not enabled on this node: "
        "name it in `enabled` under [executors] of tally.toml"
    )
    return {"status": "error", "error": failure("not_found", "task.unserved", message)}


def _by_cell(job: Job, act: Perform) -> bool:
    """True for a file task that the cell asks for, since somebody answers for what it writes."""
    return act.kind == "file" and job.params["data"].get("stamped", False)


async def _quiet(kind: str, payload: Any) -> None:
    """Progress of a tool stays inside its task."""
    del kind, payload


def _asked(act: Perform, pipeline: Pipeline) -> tuple[str, dict[str, Any]] | None:
    match act.kind:
        case "http":
            return playbook_tools.http_params(act)
        case "python":
            wanted = "context" in str(act.inputs.get("code", "context"))
            context = _context(pipeline, act) if wanted else {}
            return playbook_tools.python_params(act, context)
        case "shell":
            return playbook_tools.shell_params(act)
        case "file":
            return playbook_tools.file_params(act)
        case "llm":
            return playbook_tools.llm_params(act)
        case _:
            return None


def _context(pipeline: Pipeline, act: Perform) -> dict[str, Any]:
    """All that templates of this task see, as plain data; secrets are no part of it."""
    scope = pipeline.scope(act.name)
    found = {name: scope[name] for name in scope if name != "keychain"}
    made: dict[str, Any] = plain(found)
    return made


def _outcome(kind: str, job: Job, value: Mapping[str, Any]) -> dict[str, Any]:
    match kind:
        case "http":
            return playbook_tools.http_outcome(job, value)
        case "python":
            return playbook_tools.python_outcome(value)
        case "shell":
            return playbook_tools.shell_outcome(job, value)
        case _:
            return playbook_tools.file_outcome(job, value)


def _stored(job: Job, name: str) -> bytes:
    found = job.blobs.get(name)
    assert found is not None, "what a durable intent names is in the store"
    return found


def _layers(job: Job, keychain: Mapping[str, Any]) -> Layers:
    data = job.params["data"]
    values = Values(lambda name: _stored(job, name))
    workload = {} if "workload" not in data else values.read(data["workload"])
    execution = job.params["execution"]
    fixed = {
        "workload": workload,
        "execution_id": execution,
        "job": {"uuid": execution},
        "keychain": keychain,
    }
    if "join" in data:
        fixed["join"] = values.read(data["join"])
    args = {} if "args" not in data else values.read(data["args"])
    steps = {name: _step_value(row, values) for name, row in data.get("results", {}).items()}
    return Layers(fixed, args, steps, Lazy(data.get("ctx", {}), values), workload)


def _step_value(row: Mapping[str, Kept], values: Values) -> Any:
    value = values.read(row["v"])
    if not isinstance(value, dict):
        return value
    return StepValue(value, Lazy(row["tasks"], values))


def _lost(job: Job, step: Mapping[str, Any]) -> Outcome | None:
    """The end of a run that was taken over too often, or that must not begin twice."""
    rules = step.get("lifecycle") or {"on_takeover": "rerun", "max_takeovers": TAKEOVERS_MAX}
    times = job.attempt - 1
    if times <= 0 or (rules["on_takeover"] == "rerun" and times <= rules["max_takeovers"]):
        return None
    message = f"{times} workers were lost before this run was done"
    error = failure("worker_lost", "worker.lost", message)
    told = {"status": "error", "error": error, "frame": _taken_up(job)}
    return Ok(_receipt(job, step, {}, told))


# ---- the receipt ----------------------------------------------------------------------------


def _receipt(
    job: Job, step: Mapping[str, Any], spec: Mapping[str, Any], told: dict[str, Any]
) -> dict[str, Any]:
    frame = told["frame"]
    made: dict[str, Any] = {
        "status": told["status"],
        "result": None,
        "ref": None,
        "size": 0,
        "error": told.get("error"),
        "patches": frame["ctx"],
        "results": {},
        "tasks": frame["notes"],
        "frame": None,
        "wish": None,
    }
    if told["status"] == "yield":
        return {**made, **_put_down(job, frame, told["wish"])}
    if told["status"] == "ok":
        made |= _sized(job, step, spec, told["result"])
        if len(step["tool"]) > 1 and _is_small(frame["results"]):
            made["results"] = frame["results"]
    return made


def _put_down(job: Job, frame: dict[str, Any], wish: dict[str, Any]) -> dict[str, Any]:
    """A frame that waits, in place or by its hash: no state and no receipt holds a large result."""
    try:
        data = canon.encode(frame)
    except SchemaMismatch as why:
        message = f"what the tasks made before this one cannot be kept: {why.message}"
        return {"status": "error", "error": failure("schema", "task.result", message)}
    if len(data) <= INLINE_MAX:
        return {"frame": frame, "wish": wish}
    name = job.blobs.put(data)
    kept = {"h": name, "n": len(data), "iter": frame["iter"]}
    return {"frame": kept, "wish": wish, "ref": name, "patches": {}}


def _taken_up(job: Job) -> dict[str, Any]:
    """The frame of a run that begins, or that goes on where it was put down."""
    resume = job.params["resume"]
    if resume is None:
        return new_frame(job.params["iter"])
    frame: dict[str, Any] = resume["frame"]
    return canon.decode(_stored(job, frame["h"])) if "h" in frame else frame


def _is_small(results: Mapping[str, Any]) -> bool:
    """True for what stands beside the result; together they may be no document at all."""
    try:
        return len(canon.encode(results)) <= _RESULTS_MAX
    except SchemaMismatch:
        return False


def _sized(
    job: Job, step: Mapping[str, Any], spec: Mapping[str, Any], result: Any
) -> dict[str, Any]:
    """A result inline, or a shell of it with a reference to all of it."""
    rules = step.get("result") or step["tool"][-1].get("result") or {}
    data = canon.encode(result)
    most = rules.get("inline_max_bytes") or spec["inline_max_bytes"]
    if len(data) <= most:
        return {"result": result, "size": len(data)}
    ref = job.blobs.put(data)
    shell: dict[str, Any] = {}
    if isinstance(result, dict):
        shell = {k: v for k, v in result.items() if len(canon.encode(v)) <= _FIELD_MAX}
    for row in rules.get("select", ()):
        found = result
        for part in row["path"].split("."):
            found = found.get(part) if isinstance(found, dict) else None
        shell[row["as"]] = found
    kept = {
        "kind": "result_ref",
        "ref": ref,
        "bytes": len(data),
        "content_type": "application/cbor",
    }
    shell["_ref"] = shell["__ref__"] = kept
    preview = str(result)[: rules.get("preview_max_bytes") or 2048]
    shell["_preview"] = shell["__preview__"] = preview
    return {"result": shell, "ref": ref, "size": len(data)}
