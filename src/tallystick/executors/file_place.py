"""Putting bytes under a name, or taking them away: once, whole, and never over foreign bytes.

Theory of operation (08 section 10).
The new bytes go to a stage file beside the target and are synced there.
Where the target is absent, a hard link puts them in place and fails if something has appeared.
Where it is present, both names are exchanged in one step; what came out is then hashed, and if it
is not what was judged before, the exchange is undone and the judging starts again.
A delete moves the target to the stage name, hashes it there, and only then removes it.

The name of the stage file holds the dispatch key, so that a later attempt finds the leftovers of
an earlier one: the target tells whether the act was done, the stage file what it displaced.
Bytes that nobody expected are put into the blob store before they are removed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

from tallystick.executors.file_beneath import (
    PathError,
    open_file,
)
from tallystick.executors.file_change import (
    CONFLICT,
    Change,
    Placed,
    id_of,
    move_back,
    remove_stage,
    rename,
    swap_back,
)
from tallystick.executors.file_recover import recover

_ROUNDS_MAX: Final = 16


def place(change: Change) -> Placed:
    """Carry the change out, or recognise that an earlier attempt has.

    PathError when the target is no plain file, or holds bytes that may not be replaced; they are
    untouched then.
    """
    change.at("begun")
    done = recover(change)
    rounds = 0
    while done is None:
        if rounds == _ROUNDS_MAX:
            raise PathError("conflict", CONFLICT, "others write the file all the time")
        done = _round(change)
        rounds += 1
    os.fsync(change.here)
    change.at("synced")
    return done


def _round(change: Change) -> Placed | None:
    """Judge the target and act; None when it changed under our hands."""
    before = change.content(change.name)
    found = id_of(before)
    if before == change.wanted:
        if before is not None:
            _sync(change, change.name)
        return Placed(found, "recovered" if change.attempt > 1 else "unchanged")
    _judge(change, before)
    acted = _delete(change, before) if change.wanted is None else _write(change, before)
    if not acted:
        return None
    return Placed(found, "deleted" if change.wanted is None else "written")


def _judge(change: Change, before: bytes | None) -> None:
    found = id_of(before)
    if change.expect.allows(found):
        return
    if not change.overwrite:
        raise PathError("conflict", CONFLICT, "the file holds bytes that were not expected")
    if before is not None:
        change.blobs.put(before)


# ---- write ----------------------------------------------------------------------------------


def _write(change: Change, before: bytes | None) -> bool:
    _stage(change)
    change.at("staged")
    if before is None:
        if not _put_new(change):
            return False
    elif not _put_over(change, before):
        return False
    change.at("cleared")
    return True


def _stage(change: Change) -> None:
    """The wanted bytes in the stage file, synced; mode and owner are those of the target."""
    assert change.wanted is not None
    mode, owner = _mode(change)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(change.stage, flags, 0o600, dir_fd=change.here)
    try:
        change.at("created")
        rest = memoryview(change.wanted)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fchmod(handle, mode)
        if owner is not None:
            with suppress(PermissionError):
                os.fchown(handle, *owner)
        os.fsync(handle)
    except OSError:
        os.unlink(change.stage, dir_fd=change.here)  # a full disk leaves nothing half-written
        raise
    finally:
        os.close(handle)


def _mode(change: Change) -> tuple[int, tuple[int, int] | None]:
    handle = open_file(change.here, change.name)
    if handle is None:
        return 0o644, None
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    if stat.S_IMODE(found.st_mode) & 0o7111:
        # To replace a program is to run code later; to drop its bit would break it silently.
        raise PathError("scope", "file.executable", f"{change.name} is executable")
    return stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)


def _put_new(change: Change) -> bool:
    """Put the stage file into an empty place; False when it is empty no more."""
    here, stage, name = change.here, change.stage, change.name
    try:
        put = change.names.link(here, stage, name) or change.names.move(here, stage, name)
    except FileExistsError:
        put, free = False, False
    else:
        free = put or change.content(name) is None
    if not free:
        remove_stage(change)
        return False
    if not put:
        rename(change, stage, name)  # neither is there: the window is small, not empty
    change.at("placed")
    remove_stage(change)
    return True


def _put_over(change: Change, before: bytes) -> bool:
    """Exchange stage and target, and look at what came out; False when it was undone."""
    try:
        exchanged = change.names.exchange(change.here, change.stage, change.name)
    except FileNotFoundError:  # the target has gone meanwhile
        remove_stage(change)
        return False
    if not exchanged:
        return _rename_over(change, before)
    change.at("placed")
    try:
        same = change.content(change.stage) == before
    except PathError:
        swap_back(change)
        raise
    if not same:
        swap_back(change)
        return False
    remove_stage(change)
    return True


def _rename_over(change: Change, before: bytes) -> bool:
    """Without exchange support: look once more, then rename; the window is small, not empty."""
    if change.content(change.name) != before:
        remove_stage(change)
        return False
    rename(change, change.stage, change.name)
    change.at("placed")
    return True


# ---- delete ---------------------------------------------------------------------------------


def _delete(change: Change, before: bytes | None) -> bool:
    try:
        if not change.names.move(change.here, change.name, change.stage):
            rename(change, change.name, change.stage)
    except FileNotFoundError:
        return False
    change.at("placed")
    try:
        same = change.content(change.stage) == before
    except PathError:
        move_back(change)
        raise
    if not same:
        move_back(change)
        return False
    remove_stage(change)
    change.at("cleared")
    return True


def _sync(change: Change, name: str) -> None:
    """Bytes that are answered for are on the disk, whoever wrote them."""
    handle = open_file(change.here, name)
    if handle is not None:
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
