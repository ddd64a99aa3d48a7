"""The built-in workflow `sys/context@1`: the frame heads of one place of a workspace (F-23).

Heads are kept by place and type, since one under the id of a node would be lost with each edit.
Putting the same frame again changes nothing and says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import ids
from tallystick.reactions.cell import Body, Turn
from tallystick.values import canon

PAST_MAX: Final = 16
META_KEY_MAX: Final = 16 * 1024
META_MAX: Final = 64 * 1024


# tidy: one event, all of its fields.
def context(turn: Turn, body: Body | None, tag: str, value: Mapping[str, Any]) -> Body:
    """One tick of a place: a frame is put."""
    assert tag == "Put", "a place takes frames alone"
    if body is None:
        place = {"workspace_id": value["workspace_id"], "path": value["path"]}
        body = {**place, "heads": {}, "past": {}}
    frame = frame_of(value)
    if not _fits(value["meta"]):
        turn.emit("TriggerOutcome", _refused(value))
        return body
    frame_id = ids.text(ids.frame_id(frame))
    kind = value["type"]
    head = body["heads"].get(kind)
    if head is not None and head["frame_id"] == frame_id:
        return body
    if value["content"] is not None:
        turn.keep_bytes(value["content"])
    body["heads"][kind] = {
        "frame_id": frame_id,
        "frame": turn.keep(frame),
        "content": {"blob": frame["content_id"]},
    }
    past = body["past"].get(kind, [])
    body["past"][kind] = [*past, frame_id][-PAST_MAX:]
    kept = ("workspace_id", "path", "type", "basis", "author", "meta", "depth", "lineage")
    turn.emit(
        "FrameHeadChanged",
        {
            **{name: value[name] for name in (*kept, "root_trigger_id", "writer")},
            "frame_id": frame_id,
            "content_id": frame["content_id"],
            "previous": None if head is None else head["frame_id"],
        },
    )
    return body


def frame_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """The frame that a `sys/FramePut@1` puts."""
    content_id = value["content_ref"]
    if value["content"] is not None:
        content_id = ids.text(ids.content_id(value["content"]))
    return {
        "$type": "frame@1",
        "type": value["type"],
        "basis": value["basis"],
        "content_id": content_id,
        "author": value["author"],
        "meta": value["meta"],
    }


def _fits(meta: Any) -> bool:
    if not isinstance(meta, dict):
        return meta is None
    sizes = [len(canon.encode(item)) for item in meta.values()]
    return max(sizes, default=0) <= META_KEY_MAX and sum(sizes) <= META_MAX


def _refused(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trigger_id": None,
        "workspace_id": value["workspace_id"],
        "reaction": "",
        "target": value["path"],
        "outcome": "denied",
        "code": "frame_meta",
        "guard": "context",
        "paths": [value["path"]],
        "count": 1,
    }
