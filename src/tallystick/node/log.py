"""The log: what a node says about itself, one line each, in `logs/node.jsonl` (04 section 12).

The journal says what happened in a world; this says what happened to the process.
A line has a code, like an error, and never a value of a world or the text of somebody else's error:
what is not here cannot leak (K-04).
The file is bounded: at its limit it becomes `node.jsonl.1`, and the one before that is gone.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tallystick.node.config import LOG_LEVELS, LogSettings

FOLDER: Final = "logs"
FILE: Final = "node.jsonl"
BYTES_MAX: Final = 16 * 1024 * 1024


class Log:
    """Lines of one node; any thread may say something."""

    def __init__(
        self,
        settings: LogSettings,
        folder: Path | None,
        now_ns: Callable[[], int],
        *,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.lost = 0
        self._least = LOG_LEVELS.index(settings.level)
        self._write = _as_json if settings.format == "json" else _as_text
        self._now_ns = now_ns
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._handle = -1
        if folder is not None:
            (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
            self._path = folder / FOLDER / FILE

    def say(self, level: str, code: str, msg: str, **more: Any) -> None:
        """One line; `more` is `world` and `seq`, and what a code brings of its own."""
        if self._path is None or LOG_LEVELS.index(level) < self._least:
            return
        moment = datetime.fromtimestamp(self._now_ns() / 1e9, UTC)
        said = {
            "ts": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": level,
            "code": code,
            **{name: value for name, value in more.items() if value not in (None, "")},
            "msg": msg,
        }
        line = self._write(said).encode()
        with self._lock:
            try:
                self._put(self._path, line)
            except OSError:
                # A node goes on when its log cannot: a full disk is told by its health.
                self.lost += 1
                self._shut()

    def failed(self, msg: str, why: BaseException, code: str = "node.internal") -> None:
        """A mistake of ours: where it was raised, and never its text, which may hold a value."""
        last = why.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        place = ""
        if last is not None:
            file = Path(last.tb_frame.f_code.co_filename).name
            place = f" at {file}:{last.tb_lineno}"
        self.say("error", code, f"{msg}: {type(why).__name__}{place}")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._shut()

    def _put(self, path: Path, line: bytes) -> None:
        if self._handle < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o600)
        if os.fstat(self._handle).st_size + len(line) > self._bytes_max:
            self._shut()
            path.replace(path.with_name(FILE + ".1"))
            self._put(path, line)
            return
        os.write(self._handle, line)

    def _shut(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _as_json(said: dict[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False, default=str) + "\n"


def _as_text(said: dict[str, Any]) -> str:
    fixed = ("ts", "level", "code", "msg")
    more = "".join(f" {name}={said[name]}" for name in said if name not in fixed)
    return f"{said['ts']} {said['level']:<7} {said['code']}{more} {said['msg']}\n"
