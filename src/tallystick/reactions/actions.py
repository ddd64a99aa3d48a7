"""Actions: from a template in a reaction file to effects or events, and back (F-05; 08 s. 10).

Everything here is a function of the run's own values.
Texts up to a limit are inline; larger values are references that pass whole: text around one is
refused, because nobody here has its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tallystick.errors import Fault
from tallystick.reactions import guards, scopes
from tallystick.reactions.cell import Asked
from tallystick.reactions.document import Definition
from tallystick.reactions.globs import parse
from tallystick.reactions.grants import SLOTS, child_caps
from tallystick.reactions.stamps import raw_path
from tallystick.reactions.tree import fold, unshown
from tallystick.values import canon
from tallystick.values.expr import Template, compile_expression, compile_template, truth

INLINE_MAX: Final = 64 * 1024
TOKENS_MAX: Final = 4096
FILE_READ, FILE_WRITE, FILE_DELETE = "sys/file.read@1", "sys/file.write@1", "sys/file.delete@1"
LLM, TELEMETRY, CALL = "sys/llm.generate@1", "sys/telemetry.emit@1", "sys/workflow.call@1"
PLAYBOOK: Final = "sys/playbook@1"
_REF: Final = re.compile(r"""["']ref["']: ?["']sha256:""")  # a reference written into a text


class ActionFault(Fault):
    """An action that cannot be asked for as it stands; the run ends with its code."""

    default_code = "reaction.action"


class Setting(NamedTuple):
    """The run that an action belongs to."""

    definition: Definition
    trigger: Mapping[str, Any]
    manifest: Mapping[str, Any]
    run_id: str
    run_key: str
    results: Mapping[str, Any]
    known: Mapping[str, str | None]  # outputs of this reaction since the observation

    @property
    def target(self) -> bytes:
        """The raw path of the target."""
        return unshown(self.trigger["target"]["path"])

    def scope(self) -> dict[str, Any]:
        """What templates read."""
        return {
            "target": self.trigger["target"],
            "trigger": self.trigger,
            "frames": self.manifest["frames"],
            "params": self.manifest["params"],
            "actions": self.results,
        }


def wanted(setting: Setting, action: Mapping[str, Any]) -> bool:
    """Whether the guard of an action lets it happen."""
    if action["when"] is None:
        return True
    return truth(compile_expression(action["when"], strict=True).evaluate(setting.scope()))


def filled(setting: Setting, action: Mapping[str, Any]) -> dict[str, Any]:
    """The params of an action with every template evaluated."""
    value = _template(canon.encode(action["params"])).evaluate(setting.scope())
    for inner in _texts(value):
        if _REF.search(inner) is not None:
            message = f"{action['name']} puts a reference into a text"
            raise ActionFault(message, code="reaction.ref_in_text")
    assert isinstance(value, dict), "params are a map"
    return value


@lru_cache(maxsize=1024)
def _template(data: bytes) -> Template:
    return compile_template(canon.decode(data), strict=True)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _texts(item)]


# ---- files ----------------------------------------------------------------------------------


def reads(setting: Setting, params: Mapping[str, Any]) -> list[Asked]:
    """One read for each path; a glob means the inputs that it matches."""
    files = dict(setting.manifest["files"])
    given = params["paths"] if isinstance(params["paths"], list) else [params["paths"]]
    found: dict[str, None] = {}
    for path in given:
        if path in files:
            found[path] = None
        elif any(char in path for char in "*?{"):
            found.update(dict.fromkeys(at for at in files if parse(path).matches(raw_path(at))))
        else:
            raise ActionFault(f"{path} is not an input of this run", code="scope_violation")
    if len(found) > setting.definition["limits"]["files"]:
        raise ActionFault(f"{len(found)} files in one action", code="fanout_cap")
    workspace = setting.trigger["workspace_id"]
    return [
        Asked(FILE_READ, {"workspace": workspace, "path": path, "max": None}, "", "read")
        for path in found
    ]


class Bytes(NamedTuple):
    """What is to be written: the bytes, or the hash of what the store holds."""

    data: bytes | None
    id: str


def content_of(value: Any) -> Bytes:
    """The content of a write: a text, bytes, a reference, or any value as JSON."""
    if isinstance(value, dict) and isinstance(value.get("ref"), str):
        return Bytes(None, value["ref"])
    data = value if isinstance(value, bytes) else as_text(value).encode()
    return Bytes(data, canon.hash_of(data))


def change(
    setting: Setting, effect: str, params: Mapping[str, Any], content: Bytes | None
) -> Asked:
    """A write or a deletion with its stamp; refuses a path outside of `writes` (G3)."""
    path = _spelling(setting, params["path"])
    why = guards.out_of_scope(setting.definition, setting.target, path)
    if why is not None:
        raise ActionFault(why, code="scope_violation")
    edit = params.get("on_user_edit", setting.definition["on_user_edit"])
    asked: dict[str, Any] = {
        "workspace": setting.trigger["workspace_id"],
        "path": path,
        "expect": _expected(setting, path),
        "mode": "overwrite" if edit == "overwrite" else "keep",
        "stamp": _stamp(setting, path, None if content is None else content.id),
    }
    if content is not None:
        inline = content.data is not None and len(content.data) <= INLINE_MAX
        asked["content"] = content.data if inline else None
        asked["content_ref"] = None if inline else content.id
    return Asked(effect, asked, "", "write")


def _spelling(setting: Setting, path: str) -> str:
    """Where names fold, a file has one spelling: that of an earlier write, or of the scope."""
    if not setting.manifest.get("folding"):
        return path
    wanted, scope = fold(raw_path(path)), (setting.definition, setting.target)
    earlier: list[str] = [*setting.known, *(at for at, _ in setting.manifest["outputs"])]
    for at in earlier:
        if fold(raw_path(at)) == wanted and scopes.unwritable(*scope, at) is None:
            return at
    return scopes.spelled(*scope, path)


def _expected(setting: Setting, path: str) -> dict[str, Any]:
    """The bytes that may be replaced: what this reaction wrote, or what an in-place run read."""
    held = setting.known.get(path)
    if path not in setting.known:
        held = dict(setting.manifest["outputs"]).get(path)
        if held is None and setting.definition["overlap"] == "in_place":
            held = dict(setting.manifest["files"]).get(path)
    if held is None:
        return {"$tag": "absent", "$value": None}
    return {"$tag": "content", "$value": held}


def _stamp(setting: Setting, path: str, post_id: str | None) -> dict[str, Any]:
    trigger = setting.trigger
    return {
        "path": path,
        "post_id": post_id,
        "run_id": setting.run_id,
        "run_key": setting.run_key,
        "reaction": trigger["reaction"],
        "definition_hash": trigger["definition_hash"],
        "depth": trigger["depth"],
        "root_trigger_id": trigger["root_trigger_id"],
        "lineage": list(trigger["lineage"]),
    }


# ---- the others -----------------------------------------------------------------------------


def provider(setting: Setting, params: Mapping[str, Any], prompt: str) -> Asked:
    """A call of a model: the prompt of the definition, then the input."""
    given = params.get("input")
    words = as_text(given)
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": words}]
    asked = {
        "provider": params.get("provider", "local"),
        "model": params["model"],
        "messages": messages,
        "max_tokens": params.get("max_tokens", TOKENS_MAX),
        "options": None if "schema" not in params else {"schema": params["schema"]},
        "api_key": None,
    }
    del setting
    return Asked(LLM, asked, "", "llm")


def telemetry(params: Mapping[str, Any]) -> Asked:
    """A metric; never a source of triggers."""
    value = params.get("value")
    attrs = {key: as_text(item) for key, item in (params.get("attrs") or {}).items()}
    shown = None if value is None else str(value)
    return Asked(TELEMETRY, {"name": params["name"], "value": shown, "attrs": attrs}, "", "plain")


def replaceable(setting: Setting) -> dict[str, str]:
    """The bytes that a playbook of this run may replace, by path, as `_expected` says it."""
    files = setting.manifest["files"] if setting.definition["overlap"] == "in_place" else []
    found = {**dict(files), **dict(setting.manifest["outputs"]), **setting.known}
    return {path: held for path, held in found.items() if held is not None}


def playbook(
    setting: Setting, params: Mapping[str, Any], held: tuple[bytes, str], key: str
) -> Asked:
    """A playbook as a child; its execution is named by the action's key.

    `held` is its document, and the blob of what it may replace.
    The child writes in the name of this run: its files are effects of its own, with this stamp.
    """
    document, known = held
    definition = setting.definition
    caps = child_caps(definition, params["allow"])
    stamp = {
        "base": _stamp(setting, "", None),
        "workspace": setting.trigger["workspace_id"],
        "mode": "overwrite" if definition["on_user_edit"] == "overwrite" else "keep",
        "known": {"h": known},
    }
    parent = {"execution": None, "run": None, "depth": 0, "return_step": None, "iter": None}
    request = {
        "execution": key,
        "document": document,
        "workload": params.get("workload") or {},
        "grants": {},
        "principal": f"reaction:{setting.trigger['reaction']}",
        "parent": {**parent, "stamp": stamp},
    }
    payload = {"schema": "sys/PlayRequested@1", "value": canon.encode(request)}
    asked = {"workflow": PLAYBOOK, "key": canon.encode(key), "payload": payload, "caps": caps}
    return Asked(CALL, asked, "", SLOTS["playbook.run"])


def adapter(row: Mapping[str, Any], params: Mapping[str, Any]) -> Asked:
    """An action that the configuration adds: its fixed params under those of the file (F-21)."""
    return Asked(row["effect"], {**row.get("params", {}), **params}, "", row["slot"])


def as_text(value: Any) -> str:
    """A value as a text: itself, or as JSON says it; nothing is an empty text."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def proposal(setting: Setting, path: str, content: Bytes) -> Asked:
    """What the run would have written, in a file beside the user's; an older one is replaced."""
    asked = {
        "workspace": setting.trigger["workspace_id"],
        "path": path,
        "expect": None,
        "mode": "overwrite",
        "stamp": _stamp(setting, path, content.id),
        "content": None,
        "content_ref": content.id,
    }
    return Asked(FILE_WRITE, asked, "", "write")
