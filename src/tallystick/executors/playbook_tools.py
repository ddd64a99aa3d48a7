"""The tools of a playbook's tasks, each by the executor that performs such an effect anyway.

A task becomes a job of that executor, under the grant of its kind and a dispatch key of its own;
what the executor answers becomes the outcome of the task.
"""

# tidy: each tool from its inputs to its outcome, on one page.
from __future__ import annotations

import base64
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from tallystick.errors import NotCanonical, SchemaMismatch, TallyError
from tallystick.executors import playbook_python
from tallystick.executors.base import Failed, Job
from tallystick.playbooks.tasks import Perform, failure
from tallystick.values import canon
from tallystick.values.schema.schema import compile_schema

_INSIDE: Final = inspect.getsource(playbook_python)
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HTTP_ERRORS: Final = {429: "rate_limit", 401: "auth", 403: "auth", 404: "not_found"}
_KINDS: Final = {"scope": "denied", "limit": "client_error", "crash": "unknown"}

Outcome = dict[str, Any]


def task_key(job: Job, act: Perform, part: int = 0) -> bytes:
    """The key of one visit of one task: equal for its retries, other for each jump to it.

    A task that asks more than once has a key for each part of it.
    """
    params = job.params
    parts = [job.world, params["execution"], params["run"], params["iteration"]]
    later = [part] if part else []
    return canon.digest(["task@1", *parts, act.name, act.visit, *later])


def inner_job(job: Job, act: Perform, effect: str, params: dict[str, Any], part: int = 0) -> Job:
    """The job of the executor that performs a task, or one part of it."""
    kind = effect.partition("/")[2].partition(".")[0]
    grant = (job.grant or {})[kind]
    executor = effect.partition("/")[2].partition("@")[0]
    key = task_key(job, act, part)
    return replace(
        job, dispatch_key=key, effect=effect, executor=executor, params=params, grant=grant
    )


def failed(found: Failed) -> Outcome:
    """The outcome of a task whose executor says that it did not take place."""
    kind = _KINDS.get(found.kind, found.kind)
    more: dict[str, Any] = {"retryable": found.retryable}
    if found.retry_after_ns is not None:
        more["retry_after"] = found.retry_after_ns / 10**9
    error = failure(kind, found.code, found.message, **more)
    outcome: Outcome = {"status": "error", "error": error}
    if found.code == "python.raised":
        outcome["py"] = {"exception_type": found.message.partition(":")[0]}
        outcome["error"] = {**error, "kind": "unknown"}
    return outcome


# ---- what is asked of each executor ---------------------------------------------------------


def unasked(act: Perform) -> str:
    """Why a task has inputs that its executor cannot be asked for."""
    if act.kind == "http":
        return "auth is bearer with token, basic with username and password, or api_key with value"
    return f"{act.kind} has no action {act.inputs.get('action')!r}"


def _auth(given: Any) -> dict[str, str] | None:
    """The header that `auth` stands for; None when it cannot be read."""
    if given is None:
        return {}
    match given:
        case {"type": "bearer", "token": str(token)}:
            return {"Authorization": f"Bearer {token}"}
        case {"type": "basic", "username": str(name), "password": str(word)}:
            pair = base64.b64encode(f"{name}:{word}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        case {"type": "api_key", "value": str(value)}:
            return {str(given.get("header", "X-API-Key")): value}
        case _:
            return None


def http_params(act: Perform) -> tuple[str, dict[str, Any]] | None:
    """`sys/http.request@1` of an http task; None for an `auth` that cannot be read."""
    inputs = act.inputs
    auth = _auth(inputs.get("auth"))
    if auth is None:
        return None
    url = str(inputs["url"])
    query = inputs.get("params")
    if query:
        pairs = {key: _word(value) for key, value in query.items() if value is not None}
        url += ("&" if "?" in url else "?") + urlencode(pairs)
    given = {**auth, **(inputs.get("headers") or {})}
    headers = {str(k): _literal(_word(v)) for k, v in given.items()}
    body = inputs.get("body")
    raw = None
    if body is not None:
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if not isinstance(body, str) and "content-type" not in {name.lower() for name in headers}:
            headers["Content-Type"] = _literal("application/json")
    params = {
        "method": str(inputs.get("method") or "GET").upper(),
        "url": url,
        "headers": headers or None,
        "body": raw,
        "body_ref": None,
        "redirects": None,
    }
    return "sys/http.request@1", params


def python_params(act: Perform, context: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """`sys/python.run@1` of a python task."""
    code = act.inputs.get("code")
    if code is None:
        code = base64.b64decode(act.inputs["code_b64"]).decode()
    args = {"code": code, "args": act.args, "libs": act.inputs.get("libs") or {}}
    args["context"] = dict(context)
    return "sys/python.run@1", {"code": _INSIDE, "code_ref": None, "entry": "main", "args": args}


def is_text(act: Perform) -> bool:
    """True for a command that a shell has to read; words need none."""
    return act.kind == "shell" and not isinstance(
        act.inputs.get("cmd", act.inputs.get("cmds")), list
    )


def shell_params(act: Perform) -> tuple[str, dict[str, Any]]:
    """`sys/shell.run@1` of a shell task; a text runs in a shell, which the grant must allow."""
    inputs = act.inputs
    given = inputs.get("cmd", inputs.get("cmds"))
    argv = [str(word) for word in given] if isinstance(given, list) else ["sh", "-c", str(given)]
    env = {str(k): _literal(_word(v)) for k, v in (inputs.get("env") or {}).items()}
    return "sys/shell.run@1", {
        "argv": argv,
        "cwd": inputs.get("cwd"),
        "env": env or None,
        "stdin_ref": None,
        "net": None,
    }


def file_params(act: Perform) -> tuple[str, dict[str, Any]] | None:
    """`sys/file.*@1` of a file task; None for an action that there is not."""
    inputs = act.inputs
    place = {"workspace": str(inputs.get("workspace", "project")), "path": str(inputs["path"])}
    action = inputs["action"]
    if action == "read":
        return "sys/file.read@1", {**place, "max": None}
    if action == "delete":
        return "sys/file.delete@1", {**place, "expect": None, "stamp": None}
    if action == "list":
        return "sys/file.list@1", place
    if action not in ("write", "append"):
        return None
    data = inputs.get("data")
    text = inputs["text"] if "text" in inputs else data if isinstance(data, str) else None
    content = str(text).encode() if text is not None else json.dumps(data).encode()
    rest = {"content_ref": None, "expect": None, "mode": "overwrite", "stamp": None}
    return "sys/file.write@1", {**place, "content": content, **rest}


def llm_params(act: Perform) -> tuple[str, dict[str, Any]]:
    """`sys/llm.generate@1` of an llm task."""
    inputs = act.inputs
    messages = inputs.get("messages")
    if messages is None:
        messages = [{"role": "user", "content": str(inputs["prompt"])}]
    return "sys/llm.generate@1", {
        "provider": str(inputs.get("provider", "local")),
        "model": str(inputs["model"]),
        "messages": messages,
        "max_tokens": int(inputs.get("max_tokens") or 1024),
        "options": inputs.get("options"),
        "api_key": None,
    }


# ---- what each executor answers -------------------------------------------------------------


def kept(outcome: Outcome) -> Outcome:
    """The outcome of a task, unless no document can hold its result."""
    if outcome["status"] != "ok":
        return outcome
    try:
        canon.encode(outcome["result"])
    except SchemaMismatch as why:
        message = f"the result cannot be kept: {why.message}"
        return {"status": "error", "error": failure("schema", "task.result", message)}
    return outcome


def http_outcome(job: Job, value: Mapping[str, Any]) -> Outcome:
    """A response; 400 and above is an error of the task."""
    body = value.get("body")
    if body is None and value.get("body_ref") is not None:
        body = job.blobs.get(value["body_ref"])
    headers = {key.lower(): text for key, text in value["headers"].items()}
    data = _parsed(body or b"")
    status = value["status"]
    result = {"status_code": status, "headers": headers, "data": data}
    http = {"status": status, "headers": headers}
    if status < 400:
        return {"status": "ok", "result": result, "http": http}
    kind = _HTTP_ERRORS.get(status, "server_error" if status >= 500 else "client_error")
    retry = {"retryable": status == 429 or status >= 500}
    after = headers.get("retry-after", "")
    if after.isdigit():
        retry["retry_after"] = int(after)
    error = failure(kind, f"http.{status}", f"HTTP {status}", **retry)
    return {"status": "error", "error": error, "result": result, "http": http}


def python_outcome(value: Mapping[str, Any]) -> Outcome:
    """What the code answered."""
    return {"status": "ok", "result": value["result"]}


def shell_outcome(job: Job, value: Mapping[str, Any]) -> Outcome:
    """An exit code and what was said; another code than 0 is an error of the task."""
    result = {"exit_code": value["exit_code"]}
    for word in ("stdout", "stderr"):
        ref = value.get(f"{word}_ref")
        said = value[word] if ref is None else job.blobs.get(ref) or b""
        result[word] = said.decode("utf-8", "replace")
    if value["exit_code"] == 0:
        return {"status": "ok", "result": result}
    said = value["stderr"].decode("utf-8", "replace")[:200]
    message = f"exit code {value['exit_code']}: {said}"
    error = failure("unknown", "shell.exit", message)
    return {"status": "error", "error": error, "result": result}


def file_outcome(job: Job, value: Mapping[str, Any]) -> Outcome:
    """What a file holds, or what was done to it."""
    raw = value.get("bytes")
    if raw is None and value.get("ref") is not None:
        raw = job.blobs.get(value["ref"])
    known = ("path", "size", "status", "entries", "count")
    kept = {key: item for key, item in value.items() if key in known}
    if isinstance(raw, bytes):
        kept["text"] = raw.decode("utf-8", "replace")
    if isinstance(kept.get("status"), dict):
        kept["status"] = kept["status"]["$tag"]
    return {"status": "ok", "result": kept}


def llm_outcome(job: Job, value: Mapping[str, Any], schema: Any = None) -> Outcome:
    """What a model wrote; data is the JSON in it, where there is any.

    With a schema the data must fit it: what does not is an error of the task.
    """
    text = value.get("text")
    if text is None:  # a long answer is in the store, as the model's service gave it
        data, text = _parsed(job.blobs.get(value["output_ref"]) or b""), ""
    else:
        data = _parsed(text.encode())
    result = {"text": text, "data": None if data == text else data, "usage": value.get("usage")}
    if schema is not None:
        try:
            compile_schema("playbook/Answer@1", schema, _unnamed).admit(result["data"], "sugar")
        except TallyError as why:
            error = failure("schema", why.code, why.message)
            return {"status": "error", "error": error, "result": result}
    return {"status": "ok", "result": result}


def _unnamed(name: str) -> Any:
    """The schema of a task names no other."""
    raise KeyError(name)


def artifact_outcome(job: Job, act: Perform) -> Outcome:
    """A stored result, read back."""
    ref = act.args.get("result_ref")
    name = ref.get("ref") if isinstance(ref, dict) else ref
    named = isinstance(name, str) and _HASH.fullmatch(name) is not None
    data = job.blobs.get(str(name)) if named else None
    if data is None:
        error = failure("not_found", "artifact.unknown", f"no stored result {name!r}")
        return {"status": "error", "error": error}
    try:
        return {"status": "ok", "result": {"data": canon.decode(data)}}
    except NotCanonical as why:  # any blob of the world may be named
        error = failure("client_error", "artifact.no_result", f"{name}: {why.message}")
        return {"status": "error", "error": error}


def _literal(text: str) -> dict[str, str]:
    return {"$tag": "literal", "$value": text}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _parsed(body: bytes) -> Any:
    """The JSON of a body; one that is none, or that no document can hold, comes as its text."""
    try:
        made = json.loads(body)
        canon.encode(made)
    except (ValueError, RecursionError, SchemaMismatch):
        return body.decode("utf-8", "replace")
    return made
