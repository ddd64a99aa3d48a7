"""Opening beneath a directory handle: the one way executors reach files of a workspace.

Theory of operation.
A path is walked one segment at a time from a handle of the workspace, and no segment is a link.
So whatever others rename meanwhile, no step can lead above a directory that was beneath before.
Where the kernel has `openat2` it is asked to refuse links and ways out as well.
Names are the clean ones of `authority.paths`; our own state and stage files are never reached.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tallystick.authority.paths import unclean
from tallystick.executors.base import ErrorKind, Failed
from tallystick.values.canon import hash_of

_OPENAT2: Final = 437  # the same number on every architecture since Linux 5.6
_BENEATH: Final = 0x02 | 0x04 | 0x08  # no magic links, no links, beneath
_AT_FDCWD_NEVER: Final = "a handle is always a directory"
_EXCHANGE: Final = 2
_NO_REPLACE: Final = 1
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_STAGE_NAME: Final = re.compile(r"\..*\.[0-9a-f]{8}\.stage")
_CHUNK: Final = 1 << 20
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class PathError(Exception):
    """A path that this job may not use, or not as it asks; `failed` is the outcome to answer."""

    def __init__(self, kind: ErrorKind, code: str, message: str) -> None:
        super().__init__(message)
        self.failed = Failed(kind, code, message)


def judge_path(path: object, *, writes: bool) -> str:
    """The path as text; PathError when it is not clean or names state of ours."""
    reason = unclean(path)
    if reason is not None or not isinstance(path, str):
        raise PathError("scope", "file.path_unclean", reason or "the path is not a text")
    for segment in path.split("/"):
        folded = segment.casefold()
        if folded == ".tally" or (writes and folded == ".reactions"):
            raise PathError("scope", "file.state_path", f"{segment} is no place for effects")
        if _STAGE_NAME.fullmatch(folded):
            raise PathError("scope", "file.stage_path", f"{segment} is the name of a stage file")
    return path


@contextmanager
def parent_of(
    root: str, path: str, *, create: bool, hidden: Path | None = None
) -> Iterator[tuple[int, str] | None]:
    """A handle of the directory that holds the path, and the last name of the path.

    None when a directory is missing and may not be created.
    PathError when a segment is a link or no directory, or the hidden directory.
    """
    *folders, name = path.split("/")
    here = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for folder in folders:
            _refuse_hidden(here, hidden)
            below = _enter(here, folder, create=create)
            if below is None:
                break
            os.close(here)
            here = below
        else:
            _refuse_hidden(here, hidden)
            yield here, name
            return
        yield None
    finally:
        os.close(here)


def _refuse_hidden(here: int, hidden: Path | None) -> None:
    """Refuse a handle of the hidden directory, by whatever name it was reached."""
    if hidden is not None and hidden.exists() and os.path.samestat(os.fstat(here), hidden.stat()):
        raise PathError("scope", "file.state_path", "the data folder is no place for effects")


def _enter(here: int, folder: str, *, create: bool) -> int | None:
    if create:
        try:
            os.mkdir(folder, 0o755, dir_fd=here)
            os.fsync(here)
        except FileExistsError:
            pass
    try:
        return _open_beneath(here, folder, _DIRECTORY)
    except FileNotFoundError:
        return None


def open_file(here: int, name: str) -> int | None:
    """A handle of a regular file for reading, or None when there is nothing of that name.

    PathError for links, directories, devices, pipes and sockets; none of them is waited for.
    """
    try:
        handle = _open_beneath(here, name, _READ)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise PathError("scope", "file.not_regular", f"{name} is not a regular file")
    return handle


def _open_beneath(here: int, name: str, flags: int) -> int:
    assert here >= 0, _AT_FDCWD_NEVER
    assert "/" not in name
    try:
        return _openat2(here, name, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENXIO):
            raise PathError(
                "scope", "file.link", f"{name} is a link, or no file or directory"
            ) from None
        raise


def _openat2(here: int, name: str, flags: int) -> int:
    """The handle that the kernel opens beneath `here`; without openat2, O_NOFOLLOW must do."""
    how = struct.pack("=QQQ", flags, 0, _BENEATH)
    while True:
        made = int(_LIBC.syscall(_OPENAT2, here, os.fsencode(name), how, len(how)))
        if made >= 0:
            return made
        problem = ctypes.get_errno()
        if problem in (errno.ENOSYS, errno.EPERM, errno.E2BIG):
            return os.open(name, flags, dir_fd=here)
        # A rename somewhere made the walk unsure (EAGAIN), or a signal came: ask again.
        if problem not in (errno.EAGAIN, errno.EINTR):
            raise OSError(problem, os.strerror(problem), name)


def read_all(handle: int, bytes_max: int) -> bytes:
    """The bytes of an open file; PathError beyond the limit, before they fill the memory."""
    parts: list[bytes] = []
    size = 0
    while part := os.read(handle, min(_CHUNK, bytes_max + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            raise PathError("limit", "file.too_large", "the file is over the limit")
    return b"".join(parts)


def content_of(here: int, name: str, bytes_max: int) -> bytes | None:
    """The bytes under a name, or None when it is absent; refuses as `open_file` does."""
    handle = open_file(here, name)
    if handle is None:
        return None
    try:
        return read_all(handle, bytes_max)
    finally:
        os.close(handle)


def content_id(body: bytes) -> str:
    """The id of a content: its plain SHA-256, as `sha256sum` says (08 R1)."""
    return hash_of(body)


class Names:
    """Two names of one directory, changed in one step; False where a file system cannot do it.

    FileExistsError and FileNotFoundError mean what they say.
    """

    def exchange(self, here: int, one: str, other: str) -> bool:
        """Let each name have what the other had."""
        return _renameat2(here, one, other, _EXCHANGE)

    def move(self, here: int, old: str, new: str) -> bool:
        """Rename, if the new name is free."""
        return _renameat2(here, old, new, _NO_REPLACE)

    def link(self, here: int, old: str, new: str) -> bool:
        """A second name for the file itself, never for what a link in its place points to."""
        try:
            os.link(old, new, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                return False
            raise
        return True


def _renameat2(here: int, old: str, new: str, flag: int) -> bool:
    call: Callable[..., int] | None = getattr(_LIBC, "renameat2", None)
    if call is None:
        return False
    if call(here, os.fsencode(old), here, os.fsencode(new), flag) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(problem, os.strerror(problem), new)


def failed(error: OSError) -> Failed:
    """What the system refused, by whose fault; the message holds no path of the host."""
    reason = os.strerror(error.errno) if error.errno is not None else "input or output failed"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed("limit", "file.disk_full", reason, retryable=True)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Failed("auth", "file.refused", reason)
    if error.errno in (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR):
        return Failed("client_error", "file.name", reason)
    return Failed("server_error", "file.io", reason, retryable=True)
