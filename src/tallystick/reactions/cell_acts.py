"""One action of a run: asked for, waited for, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import actions, guards, ids, keys
from tallystick.reactions.actions import ActionFault, Setting
from tallystick.reactions.cell import MS, TIMER, Asked, Body, Sent, Turn
from tallystick.reactions.stamps import raw_path
from tallystick.values.expr import ExpressionFault

Ended = dict[str, Any]
WAITS: Final = "waits:"  # the beginning of a command's key when a run waits for its end


def act(turn: Turn, body: Body, setting: Setting, at: int) -> Ended | None:
    """Begin the action at a position; not None when it has ended at once."""
    action = setting.definition["actions"][at]
    base = {"name": action["name"], "ordinal": at, "kind": action["kind"], "action_key": None}
    try:
        if not actions.wanted(setting, action):
            return ended_as(base, "skipped", held={"value": None})
        params = actions.filled(setting, action)
        place = (action["name"], at)
        base["action_key"] = keys.action_key(
            setting.definition.hash, setting.run_key, place, _plain(params)
        )
        if guards.is_done(body["done"], action["name"], base["action_key"]):
            # The outputs stand in the run already; this attempt made none of them.
            return ended_as(base, "kept", held=body["done"][action["name"]]["held"])
        asked = _asked(turn, body, setting, (action, params, base))
    except (ActionFault, ExpressionFault) as why:
        return ended_as(base, "failed", code=why.code, message=why.message)
    if isinstance(asked, dict):
        return asked
    _open(turn, body, action, (base, params, asked))
    return None


def ended_as(base: Mapping[str, Any], status: str, **more: Any) -> Ended:
    """An action that is over; what is not said of it is empty."""
    empty: dict[str, Any] = {
        "code": None,
        "message": None,
        "outputs": [],
        "intent": None,
        "held": {"value": None},
    }
    return {**base, **empty, **more, "status": status}


def recorded(ended: Ended, now_ns: int) -> dict[str, Any]:
    """The record of an ended action, as it stands under the run's hash."""
    kept = ("name", "ordinal", "kind", "action_key", "status", "code", "outputs")
    return {**{name: ended[name] for name in kept}, "receipt_id": ended["intent"], "at_ns": now_ns}


def _open(
    turn: Turn,
    body: Body,
    action: Mapping[str, Any],
    made: tuple[Mapping[str, Any], Mapping[str, Any], list[Asked]],
) -> None:
    """Ask for the effects of an action, each under its key, and remember what is waited for."""
    base, params, asked = made
    attempt = len(body["attempts"])
    body["cursor"] = {
        **body["cursor"],
        "at": base["ordinal"],
        "base": dict(base),
        "edit": params.get("on_user_edit"),
        "json": "schema" in params,
        "got": {},
        "pages": [],
        "open": {},
    }
    for j, each in enumerate(asked):
        ref = f"act:{attempt}.{base['ordinal']}.{j}"
        key = f"{base['action_key']}.{j}#{attempt}".encode()
        body["cursor"]["open"][ref] = each.params.get("path")
        timeout_ns = None if each.effect == TIMER else action["timeout_ms"] * MS
        turn.ask(each._replace(ref=ref, key=key, timeout_ns=timeout_ns))


# ---- asking ---------------------------------------------------------------------------------


def _asked(
    turn: Turn,
    body: Body,
    setting: Setting,
    given: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
) -> list[Asked] | Ended:
    """The effects of an action, or the end of one that needs none."""
    action, params, base = given
    kind = action["kind"]
    if kind == "file.read":
        found = actions.reads(setting, params)
        return found or ended_as(base, "ok", held={"value": {"files": []}})
    if kind == "file.write":
        return [_write(turn, body, setting, params)]
    if kind == "file.delete":
        return [actions.change(setting, actions.FILE_DELETE, params, None)]
    if kind == "provider.call":
        prompt = turn.bytes_of(setting.definition["prompts"][params["prompt"]]).decode()
        return [actions.provider(setting, params, prompt)]
    if kind == "telemetry.emit":
        return [actions.telemetry(params)]
    if kind == "playbook.run":
        return [_playbook(turn, body, setting, given)]
    if kind == "frame.generate":
        return [_generate(turn, body, setting, given)]
    if kind in setting.definition["adapters"]:
        return [actions.adapter(setting.definition["adapters"][kind], params)]
    return _at_once(turn, setting, (kind, params, base))


def _playbook(
    turn: Turn,
    body: Body,
    setting: Setting,
    given: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
) -> Asked:
    action, params, base = given
    document = turn.bytes_of(setting.definition["prompts"][params["playbook"]])
    allowed = {**params, "allow": action["params"]["allow"]}
    # The body holds it until the child does.
    known = body["cursor"]["known"] = turn.keep(actions.replaceable(setting))
    return actions.playbook(setting, allowed, (document, known["blob"]), base["action_key"])


def _write(turn: Turn, body: Body, setting: Setting, params: Mapping[str, Any]) -> Asked:
    content = actions.content_of(params["content"])
    if content.data is not None:
        turn.keep_bytes(content.data)
        body["cursor"]["bytes"] += len(content.data)
    if body["cursor"]["bytes"] > setting.definition["limits"]["bytes"]:
        raise ActionFault("the run writes more bytes than it may", code="fanout_cap")
    body["cursor"]["content"] = {"blob": content.id}
    frame = params.get("emit_frame")
    if frame is not None:
        _frame_scope(setting, frame)
    body["cursor"]["emit_frame"] = frame
    return actions.change(setting, actions.FILE_WRITE, params, content)


def _generate(
    turn: Turn,
    body: Body,
    setting: Setting,
    given: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
) -> Asked:
    """Ask for another reaction and wait: for its word that it has ended, or for the time."""
    action, params, base = given
    ref = f"act:{len(body['attempts'])}.{base['ordinal']}.0"
    # Whoever runs for this key sends its word to the run and reference that it names.
    command = _command(setting, params, f"{WAITS}{setting.run_key}#{ref}")
    turn.emit("CommandAsked", command)
    due = turn.now_ns + action["timeout_ms"] * MS
    return Asked(TIMER, {"deliver_at_ns": due, "key": None}, "", "timer")


def _at_once(
    turn: Turn,
    setting: Setting,
    given: tuple[str, Mapping[str, Any], Mapping[str, Any]],
) -> Ended:
    """Actions that are events: nobody outside is asked."""
    kind, params, base = given
    if kind == "frame.put":
        _frame_scope(setting, params["type"])
        content = actions.content_of(params["content"])
        path = params.get("path", setting.trigger["target"]["path"])
        put_frame(turn, setting, (path, params["type"], content), params.get("meta") or {})
        return ended_as(base, "ok", held={"value": {"content_id": content.id}})
    if kind == "frame.queue":
        turn.emit("CommandAsked", _command(setting, params, base["action_key"]))
        return ended_as(base, "ok")
    why = turn.misfit(params["schema"], params["value"])
    if why is not None:
        raise ActionFault(why, code="reaction.event")
    turn.sent.append(Sent(params["schema"], params["value"]))
    return ended_as(base, "ok")


def _frame_scope(setting: Setting, kind: str) -> None:
    if kind not in setting.definition["writes"]["frames"]:
        raise ActionFault(f"frames of type {kind} are outside of writes", code="scope_violation")


def _command(setting: Setting, params: Mapping[str, Any], key: str) -> dict[str, Any]:
    trigger = setting.trigger
    return {
        "workspace_id": trigger["workspace_id"],
        "reaction": params["reaction"],
        "path": params.get("path", trigger["target"]["path"]),
        "args": {},
        "key": key,
        "cause": {
            "cause": f"run:{setting.run_id}",
            "actor": {"kind": "reaction", "id": trigger["reaction"]},
            "depth": trigger["depth"] + 1,
            "lineage": [*trigger["lineage"], trigger["reaction"]],
            "root": trigger["root_trigger_id"],
            "writer": _writer(setting),
        },
    }


def _writer(setting: Setting) -> dict[str, str]:
    return {
        "reaction": setting.trigger["reaction"],
        "run_id": setting.run_id,
        "definition_hash": setting.trigger["definition_hash"],
    }


# tidy: one event, all of its fields.
def put_frame(
    turn: Turn,
    setting: Setting,
    frame: tuple[str, str, actions.Bytes],
    meta: Mapping[str, Any],
) -> None:
    """Put a frame in the name of the run, with its depth and lineage."""
    path, kind, content = frame
    trigger, node = setting.trigger, setting.manifest["node"]
    here = path == trigger["target"]["path"]
    place = setting.target if here else raw_path(path)
    inline = content.data is not None
    turn.emit(
        "FramePut",
        {
            "locator_id": ids.text(ids.locator_id(trigger["workspace_id"], place)),
            "workspace_id": trigger["workspace_id"],
            "path": path,
            "type": kind,
            "content": content.data if inline else None,
            "content_ref": None if inline else content.id,
            "basis": {
                "node_id": node["node_id"] if here else None,
                "bare_id": node["bare_id"] if here else None,
                "frames": sorted(
                    row["frame_id"]
                    for row in setting.manifest["frames"].values()
                    if row["frame_id"] is not None
                ),
            },
            "author": {"kind": "reaction", "id": trigger["reaction"]},
            "meta": dict(meta),
            "depth": trigger["depth"],
            "lineage": list(trigger["lineage"]),
            "root_trigger_id": trigger["root_trigger_id"],
            "writer": _writer(setting),
        },
    )


def _plain(value: Any) -> Any:
    """Params as they are hashed: plain maps and lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
