"""Identities of reactions (08, R1 to R3): hashes of what a thing is, never of where or when.

`H(name, **fields)` is sha256 over the canonical document of `{"$type": name, ...}`.
A locator is (workspace_id, relpath): the one place where a path enters an identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from tallystick.values import canon

CONTENT_BYTES: Final = 32


def H(name: str, /, **fields: Any) -> bytes:  # noqa: N802 - the letter of the design
    """The 32 bytes that identify a structure of ours, told apart from others by its name."""
    return canon.tagged(name, fields)


def content_id(data: bytes) -> bytes:
    """R1: what `sha256sum` says of the bytes of a file, or of the target of a link."""
    return sha256(data).digest()


def locator(workspace_id: str, path: bytes) -> list[Any]:
    """R2: where something is; as it stands inside other identities."""
    return [workspace_id, path]


def node_id(workspace_id: str, path: bytes, kind: str, identity: bytes | int | None) -> bytes:
    """R2: one entry of a workspace with its content; another content is another node."""
    return H("node@1", locator=locator(workspace_id, path), kind=kind, id=identity)


def target_id(reaction: str, kind: str, workspace_id: str, path: bytes) -> bytes:
    """R2: what a reaction is about, whatever it holds at the moment: the key of its lane."""
    return H("target@1", reaction=reaction, kind=kind, locator=locator(workspace_id, path))


def locator_id(workspace_id: str, path: bytes) -> bytes:
    """The key of the cell that keeps the frame heads of one place."""
    return H("locator@1", locator=locator(workspace_id, path))


def frame_id(frame: Mapping[str, Any]) -> bytes:
    """A context frame by all that it says but `meta` (08 section 5)."""
    return H("frame@1", **{key: frame[key] for key in frame if key not in ("$type", "meta")})


def text(raw: bytes) -> str:
    """An id as records and people spell it."""
    return canon.text_of(raw)


def raw(spelled: str) -> bytes:
    """The 32 bytes of a spelled id."""
    return canon.raw_of(spelled)
