"""The built-in enforcers: what a grant's fields mean for the params of a request.

Theory of operation.
Each enforcer is a pure function of one question and answers yes, or the field that is too narrow.
A field the grant leaves out restricts nothing; an empty list permits nothing.
What a grant restricts, the request must state: silence about a restricted field is a no.
The exceptions are the closed fields, which give something instead of taking it away: without
`cidrs` no inside network is reached, without `network` and `text` neither is given.
Every enforcer is monotone: narrowing a grant as `attenuate` allows never turns a no into a yes.
Size by reference, run time and resolved addresses are the executor's half; grant params travel
with the intent, so it can check them.
"""

# tidy: one table of one-screen rules; splitting it by cap type would hide their common shape.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.authority.addresses import address_allowed, reaches_loopback, read_address
from tallystick.authority.paths import covers_path, glob_covers, unclean
from tallystick.authority.sqltext import read_statement
from tallystick.authority.urls import BadUrl, Url, covers_host, is_internal, is_local, read_url

BUILTIN_MODULE = "sys/caps@1"


@dataclass(frozen=True, slots=True)
class EnforcerAnswer:
    """Yes, or the field of the grant that says no and a sentence."""

    ok: bool
    field: str | None = None
    message: str | None = None


Question = Mapping[str, Any]
Params = Mapping[str, Any]
_YES = EnforcerAnswer(ok=True)

# Fields whose absence gives nothing; everywhere else absence restricts nothing.
CLOSED_FIELDS: Mapping[str, frozenset[str]] = {
    "http_out": frozenset(("cidrs",)),
    "shell": frozenset(("text", "network")),
    "python": frozenset(("network",)),
}


def builtin(entrypoint: str, question: Question) -> EnforcerAnswer:
    """The answer of a built-in enforcer; an unknown entrypoint is a LookupError, a fault."""
    return _ENFORCERS[entrypoint](question["cap_params"], question["params"], question)


def _no(field: str, message: str) -> EnforcerAnswer:
    return EnforcerAnswer(ok=False, field=field, message=f"{field}: {message}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(grant: Params, field: str, value: Any) -> EnforcerAnswer | None:
    """A no when the grant lists a field and the value is not in it."""
    allowed = grant.get(field)
    if allowed is None or (type(value) is not bool and value in allowed):
        return None
    return _no(field, f"{_shown(value)} is not granted")


def _at_most(grant: Params, field: str, value: Any) -> EnforcerAnswer | None:
    """A no when the grant has a maximum and the value is over it, or is not a number."""
    most = grant.get(field)
    if most is None or (type(value) is int and value <= most):
        return None
    return _no(field, f"{_shown(value)} is over {most} or not stated")


def _size(value: Any) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(value)


def _effect(_grant: Params, _params: Params, _question: Question) -> EnforcerAnswer:
    return _YES


# ---- http -----------------------------------------------------------------------------------

_URL_FIELDS = ("hosts", "schemes", "ports", "path_prefixes", "cidrs")


def _http_out(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    refused = _http_request(grant, params)
    if refused is not None:
        return refused
    text = params.get("url")
    if text is None:
        # An effect of another shape: it may pass only where no field about the URL is restricted.
        for field in _URL_FIELDS:
            if grant.get(field) is not None:
                return _no(field, "the request states no url")
        return _YES
    url = read_url(text)
    if isinstance(url, BadUrl):
        return _no("url", url.reason)
    return _http_url(grant, url) or _YES


def _http_request(grant: Params, params: Params) -> EnforcerAnswer | None:
    method = params.get("method")
    if method is not None and (type(method) is not str or not method.isascii()):
        return _no("methods", "the method is not an ASCII text")
    if method is not None and (not method.isalpha() or method.upper() in ("CONNECT", "TRACE")):
        return _no("methods", f"{_shown(method)} is never granted")
    headers = params.get("headers") or {}
    if grant.get("hosts") is not None and any(name.lower() == "host" for name in headers):
        return _no("hosts", "the request sets its own host header")
    body = params.get("body")
    return _listed(grant, "methods", method) or (
        None if body is None else _at_most(grant, "max_body_bytes", _size(body))
    )


def _http_url(grant: Params, url: Url) -> EnforcerAnswer | None:
    hosts = grant.get("hosts")
    if hosts is not None and not any(_host_fits(host, url) for host in hosts):
        return _no("hosts", f"{_shown(url.host)} is not granted")
    refused = _listed(grant, "schemes", url.scheme) or _listed(grant, "ports", url.port)
    if refused is not None:
        return refused
    prefixes = grant.get("path_prefixes")
    if prefixes is not None and not any(covers_path(prefix, url.path) for prefix in prefixes):
        return _no("path_prefixes", f"{_shown(url.path)} is not granted")
    return _http_inside(grant.get("cidrs") or [], url)


def _host_fits(pattern: str, url: Url) -> bool:
    if url.address is not None:
        return read_address(pattern.strip("[]")) == url.address
    return covers_host(pattern, url.host)


def _http_inside(cidrs: list[str], url: Url) -> EnforcerAnswer | None:
    """Inside addresses and names need a network in the grant; a name is resolved later."""
    if url.address is not None:
        if address_allowed(url.address, cidrs):
            return None
    elif is_local(url.host):
        if reaches_loopback(cidrs):
            return None
    elif cidrs or not is_internal(url.host):
        return None
    return _no("cidrs", f"{_shown(url.host)} lies in a network the grant does not name")


# ---- files, blobs ---------------------------------------------------------------------------

_FILE_OPS = {
    "read": "read",
    "write": "write",
    "append": "write",
    "delete": "delete",
    "list": "list",
}


def _operation(question: Question) -> str:
    """The last word of an effect's name: `sys/file.read@1` reads."""
    return str(question["effect"]).rpartition("@")[0].rpartition("/")[2].rpartition(".")[2]


def _file(grant: Params, params: Params, question: Question) -> EnforcerAnswer:
    path = params.get("path")
    reason = unclean(path)
    if reason is not None:
        return _no("path", reason)
    refused = _listed(grant, "roots", params.get("workspace")) or _listed(
        grant, "ops", _FILE_OPS.get(_operation(question), "unknown")
    )
    if refused is not None:
        return refused
    prefixes = grant.get("path_prefixes")
    if prefixes is not None and not any(covers_path(prefix, path) for prefix in prefixes):
        return _no("path_prefixes", f"{_shown(path)} is not granted")
    globs = grant.get("globs")
    if globs is not None and not any(glob_covers(glob, str(path)) for glob in globs):
        return _no("globs", f"{_shown(path)} is not granted")
    return _file_size(grant, params) or _YES


def _file_size(grant: Params, params: Params) -> EnforcerAnswer | None:
    content, most = params.get("content"), params.get("max")
    if content is not None:
        return _at_most(grant, "max_bytes", _size(content))
    return None if most is None else _at_most(grant, "max_bytes", most)


def _blob(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    content = params.get("bytes")
    refused = _listed(grant, "namespaces", params.get("namespace"))
    if refused is None and content is not None:
        refused = _at_most(grant, "max_bytes", _size(content))
    return refused or _YES


# ---- programs -------------------------------------------------------------------------------


def _shell(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    argv = params.get("argv")
    if not isinstance(argv, list):
        if grant.get("text") is not True:
            return _no("text", "a command as text is not granted")
        if grant.get("programs") is not None:
            return _no("programs", "a command as text names no program")
    elif not argv or any(type(word) is not str or "\x00" in word for word in argv):
        return _no("programs", "argv is not a list of texts")
    else:
        refused = _listed(grant, "programs", argv[0])
        if refused is not None:
            return refused
    cwd = params.get("cwd")
    reason = None if cwd is None else unclean(cwd)
    if reason is not None:
        return _no("cwd", reason)
    for name in sorted(params.get("env") or {}):
        refused = _listed(grant, "env", name)
        if refused is not None:
            return refused
    return _network(grant, params) or _YES


def _python(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    entry = params.get("entry")
    refused = _listed(grant, "entrypoints", "main" if entry is None else entry)
    return refused or _network(grant, params) or _YES


def _network(grant: Params, params: Params) -> EnforcerAnswer | None:
    if params.get("net") in (None, False) or grant.get("network") is True:
        return None
    return _no("network", "the network is not granted")


# ---- data, models ---------------------------------------------------------------------------


def _sql(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    refused = _listed(grant, "databases", params.get("db"))
    if refused is not None:
        return refused
    statement = read_statement(params.get("sql"))
    if statement is None:
        return _no("verbs", "the text is not plainly one statement without comments")
    verb = "write" if params.get("mode") not in (None, "read") else statement.verb
    refused = _listed(grant, "verbs", verb)
    if refused is None and grant.get("tables") is not None:
        for table in statement.tables:
            refused = refused or _listed(grant, "tables", table)
    return refused or _YES


def _llm(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    refused = _listed(grant, "providers", params.get("provider"))
    if refused is not None:
        return refused
    models, model = grant.get("models"), params.get("model")
    if models is not None and not any(_model_fits(known, model) for known in models):
        return _no("models", f"{_shown(model)} is not granted")
    refused = _at_most(grant, "max_tokens", params.get("max_tokens"))
    return refused or _tools(grant, params) or _YES


def _model_fits(known: str, model: Any) -> bool:
    """Exact, or `name-*`: the dash keeps `gpt-*` from covering `gpt4`."""
    if type(model) is not str:
        return False
    return model == known or (known.endswith("-*") and model.startswith(known[:-1]))


def _tools(grant: Params, params: Params) -> EnforcerAnswer | None:
    options = params.get("options")
    asked = options.get("tools") if isinstance(options, Mapping) else None
    if grant.get("tools") is None or not asked:
        return None
    for tool in asked:
        name = tool.get("name") if isinstance(tool, Mapping) else tool
        refused = _listed(grant, "tools", name)
        if refused is not None:
            return refused
    return None


# ---- time, people, cells, governance --------------------------------------------------------


def _timer(grant: Params, params: Params, question: Question) -> EnforcerAnswer:
    horizon = grant.get("max_horizon_ns")
    due = params.get("deliver_at_ns")
    if horizon is None or (type(due) is int and due <= question["logical_now_ns"] + horizon):
        return _YES
    return _no("max_horizon_ns", f"{_shown(due)} is past the horizon")


def _human(grant: Params, params: Params, question: Question) -> EnforcerAnswer:
    to = params.get("to")
    for group in to if isinstance(to, list) and to else [None if to == [] else to]:
        refused = _listed(grant, "groups", group)
        if refused is not None:
            return refused
    longest, ends = grant.get("max_open_ns"), params.get("expires_at_ns")
    if longest is None or (type(ends) is int and ends <= question["logical_now_ns"] + longest):
        return _YES
    return _no("max_open_ns", "the question stays open too long or without end")


def _workflow(grant: Params, params: Params, _question: Question) -> EnforcerAnswer:
    target, world = params.get("workflow"), params.get("world")
    allowed = grant.get("workflows")
    if allowed is not None and not any(_name_fits(known, target) for known in allowed):
        return _no("workflows", f"{_shown(target)} is not granted")
    return (None if world is None else _listed(grant, "worlds", world)) or _YES


def _name_fits(known: str, name: Any) -> bool:
    if type(name) is not str:
        return False
    return name == known or (known.endswith("*") and name.startswith(known[:-1]))


def _governance(grant: Params, params: Params, question: Question) -> EnforcerAnswer:
    operation = _operation(question)
    refused = _listed(grant, "ops", operation)
    if refused is not None or operation != "propose":
        return refused or _YES
    patch = params.get("patch")
    patches = patch.get("patches") if isinstance(patch, Mapping) else None
    if not isinstance(patches, list):
        for field in ("def_kinds", "name_prefixes", "sections"):
            if grant.get(field) is not None:
                return _no(field, "the proposal states no patch")
        return _YES
    for change in patches:
        for verb in sorted(change):
            refused = refused or _change(grant, verb, change[verb])
    return refused or _YES


def _change(grant: Params, verb: str, body: Params) -> EnforcerAnswer | None:
    if verb == "set_section":
        return _listed(grant, "sections", body.get("section"))
    refused = _listed(grant, "def_kinds", body.get("kind"))
    prefixes = grant.get("name_prefixes")
    if refused is not None or prefixes is None:
        return refused
    # Both names count: the one that is replaced and the one that comes in its place.
    bodies = (body, body.get("node"), body.get("new_node"))
    names = [part["name"] for part in bodies if part is not None and "name" in part] or [None]
    for name in names:
        if type(name) is not str or not any(name.startswith(prefix) for prefix in prefixes):
            return _no("name_prefixes", f"{_shown(name)} is not granted")
    return None


_ENFORCERS: Mapping[str, Callable[[Params, Params, Question], EnforcerAnswer]] = {
    "blob": _blob,
    "effect": _effect,
    "file": _file,
    "governance": _governance,
    "http_out": _http_out,
    "human": _human,
    "llm": _llm,
    "python": _python,
    "shell": _shell,
    "sql": _sql,
    "timer": _timer,
    "workflow": _workflow,
}
