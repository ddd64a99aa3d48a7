"""Announcing a write in a directory that several worlds write (08 section 3).

The announcement is durable before the write, as the intent is in the world's own journal, so that
another world which sees the bytes finds whose they are.
A line is one canonical document in base64.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallystick.values import canon


def announce(world: str, path: Path, stamp: Mapping[str, Any]) -> None:
    """Append one stamp, alone on its line even after one that was torn, and sync it."""
    document = {"$type": "announced@1", "world": world, "stamp": dict(stamp)}
    line = base64.b64encode(canon.encode(document)) + b"\n"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        rest = memoryview(b"\n" + line if torn else line)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)
