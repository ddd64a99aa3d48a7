"""One change of one name, and the small steps that it is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tallystick.executors.base import Blobs
from tallystick.executors.file_beneath import (
    Names,
    content_id,
    content_of,
)

_STEM_BYTES_MAX: Final = 200  # a name has at most 255 bytes, and the stage name adds 16
CONFLICT: Final = "file.conflict"
STEPS: Final = ("begun", "created", "staged", "placed", "cleared", "synced")


@dataclass(frozen=True, slots=True)
class Expectation:
    """Which bytes the target may hold: any, none, or those of one id.

    A stamped write may also take a place that became empty (08 section 10).
    """

    kind: str = "any"
    id: str | None = None
    stamped: bool = False

    def allows(self, found: str | None) -> bool:
        """True when bytes of this id (None: absent) may be replaced."""
        if self.kind == "any":
            return True
        return found == self.id or (found is None and self.stamped)

    def names(self, found: str | None) -> bool:
        """True when exactly these bytes were expected, so that nobody misses them."""
        return self.kind == "content" and found == self.id


def expected(params: Mapping[str, Any]) -> Expectation:
    """What the params of a change say of the bytes it may meet."""
    expect, stamped = params.get("expect"), params.get("stamp") is not None
    if expect is None:
        return Expectation()
    return Expectation(expect["$tag"], expect.get("$value"), stamped)


def overwrites(params: Mapping[str, Any]) -> bool:
    """True for a change that may replace what was not expected."""
    return params.get("mode") == "overwrite"


def may_begin(params: Mapping[str, Any]) -> bool:
    """True for a change that may find nothing in its place."""
    return overwrites(params) or expected(params).allows(None)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one name: the wanted bytes, or None for a delete."""

    here: int
    name: str
    key: bytes
    wanted: bytes | None
    expect: Expectation
    overwrite: bool
    attempt: int
    bytes_max: int
    blobs: Blobs
    names: Names
    at: Callable[[str], None]  # called at each of STEPS, so that tests can stop the process there

    @property
    def stage(self) -> str:
        """The name of the stage file, which the watch ignores."""
        stem = os.fsencode(self.name)[:_STEM_BYTES_MAX].decode("utf-8", "ignore")
        return f".{stem}.{self.key.hex()[:8]}.stage"

    def content(self, name: str) -> bytes | None:
        """What a name of the directory holds now."""
        return content_of(self.here, name, self.bytes_max)


@dataclass(frozen=True, slots=True)
class Placed:
    """What was under the name before, and how the job ended."""

    pre_id: str | None
    status: str


def id_of(body: bytes | None) -> str | None:
    """The id of a content; absent bytes have none."""
    return None if body is None else content_id(body)


def keep_stage(change: Change) -> None:
    """Make the stage file a blob, and remove it."""
    left = change.content(change.stage)
    if left is not None:
        change.blobs.put(left)
    remove_stage(change)


def remove_stage(change: Change) -> None:
    """Remove the stage file, if there is one."""
    with suppress(FileNotFoundError):
        os.unlink(change.stage, dir_fd=change.here)


def rename(change: Change, old: str, new: str) -> None:
    """Rename within the directory, over whatever is there."""
    os.rename(old, new, src_dir_fd=change.here, dst_dir_fd=change.here)


def swap_back(change: Change) -> None:
    """Undo an exchange; what others made of our bytes meanwhile is kept as a blob."""
    change.names.exchange(change.here, change.stage, change.name)
    left = change.content(change.stage)
    if left is not None and left != change.wanted:
        change.blobs.put(left)
    remove_stage(change)


def move_back(change: Change) -> None:
    """Give a displaced file its name again; if the name is taken, keep the bytes as a blob."""
    try:
        if change.names.move(change.here, change.stage, change.name):
            return
        if change.names.link(change.here, change.stage, change.name):
            remove_stage(change)
        elif change.content(change.name) is None:
            rename(change, change.stage, change.name)
        else:
            keep_stage(change)
    except FileExistsError:
        keep_stage(change)
