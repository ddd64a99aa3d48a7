"""Running a program so that it can hurt neither the node nor the machine.

Theory of operation.
A program runs behind the walls of `isolate_bubblewrap`, or, when the settings say `rlimits`, with
limits alone; without bubblewrap and without that word it does not run at all.
The launcher waits until it is let go, takes on the limits and becomes the program; nothing of the
request is an argument or a variable of what runs outside.
So a sandbox can be started before there is a program for it: `isolate_spares`.
Output is read up to a limit and dropped beyond it, so that neither side waits for the other.
When the time is over, or nobody waits any more, the whole sandbox is killed at once.
All of it blocks, so executors call it on a thread.
"""

from __future__ import annotations

import inspect
import marshal
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tallystick.errors import BadDefinition
from tallystick.executors import isolate_launch
from tallystick.executors.base import Failed
from tallystick.executors.isolate_bubblewrap import (
    PROJECT,
    bubblewrap,
    interpreter,
    stranger,
    walls,
)
from tallystick.executors.isolate_watch import Allowed, Ended, Notes, Sandbox, Surroundings, Watch

PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_TMP: Final = "/tmp"  # noqa: S108 - the sandbox's own
_PLAIN_ENV: Final = {"PATH": ":".join(PATH), "HOME": _TMP, "LANG": "C.UTF-8"}
_FILES_MAX: Final = 256
_LAUNCH: Final = inspect.getsource(isolate_launch)

Isolation = Literal["bubblewrap", "rlimits"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a program may use; `bytes_max` bounds each of its two outputs.

    `bwrap` is the program that builds the walls, None when there is none.
    """

    isolation: Isolation = "bubblewrap"
    cpu_s: float = 60.0
    memory: int = 512 << 20
    procs: int = 64
    timeout_s: float = 60.0
    bytes_max: int = 16 << 20
    slots: int = 4
    bwrap: str | None = field(default_factory=bubblewrap)


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its arguments, its input, and what it sees of the machine.

    `cwd` is a path in the project, which is visible then; without it the program starts in `/tmp`.
    `answer` gives the program a handle to write an answer to; its number is the last argument.
    `code` is a program of Python, run by the interpreter that stands ready instead of `argv[0]`;
    `ahead` names the modules that it may have before it begins.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: bytes = b""
    net: bool = False
    answer: bool = False
    code: str | None = None
    ahead: tuple[str, ...] = ()


def read_bounds(settings: Mapping[str, Any]) -> Bounds:
    """The bounds of `[executors.shell]` or `[executors.python]`; BadDefinition otherwise."""
    isolation = settings.get("isolation", "bubblewrap")
    if isolation not in ("bubblewrap", "rlimits"):
        raise BadDefinition(
            f"isolation is bubblewrap or rlimits, not {isolation!r}", code="config.value"
        )
    plain = Bounds()
    return Bounds(
        isolation=isolation,
        cpu_s=float(settings.get("cpu_s", plain.cpu_s)),
        memory=int(settings.get("memory", plain.memory)),
        procs=int(settings.get("procs", plain.procs)),
        timeout_s=float(settings.get("timeout_s", plain.timeout_s)),
        bytes_max=int(settings.get("max_bytes", plain.bytes_max)),
        slots=int(settings.get("slots", plain.slots)),
    )


def run(program: Program, bounds: Bounds, around: Surroundings) -> Ended | Failed:
    """Run the program to its end; Failed when it was not started, or had to be killed."""
    refused = unavailable(bounds)
    if refused is not None:
        return refused
    return run_in(start(program, bounds, around), program, bounds, around)


def run_in(
    sandbox: Sandbox,
    program: Program,
    bounds: Bounds,
    around: Surroundings,
    meanwhile: Callable[[], None] = lambda: None,
) -> Ended | Failed:
    """Run the program to its end in a sandbox that was started for such ones."""
    with sandbox:
        notes = sandbox.notes
        spec = _spec(program, bounds, around, notes.answer.fileno())
        for file, body in ((notes.spec, marshal.dumps(spec)), (notes.stdin, program.stdin)):
            file.write(body)
            file.seek(0)
        walled = bounds.isolation == "bubblewrap"
        watch = Watch(sandbox, around, Allowed(bounds.bytes_max, bounds.memory, walled))
        sandbox.let_go()
        meanwhile()
        reason = watch.follow()
        return reason or _told(os.pread(notes.word.fileno(), 64, 0), watch.ended())


def unavailable(bounds: Bounds) -> Failed | None:
    """Why no program can run on this machine under these bounds, or None."""
    if not hasattr(os, "memfd_create"):
        return Failed("server_error", "sandbox.unavailable", "programs run on Linux only")
    if bounds.isolation == "bubblewrap" and bounds.bwrap is None:
        return Failed(
            "server_error",
            "sandbox.unavailable",
            'bubblewrap is not installed: install bwrap, or set isolation = "rlimits"',
        )
    return None


def start(program: Program, bounds: Bounds, around: Surroundings) -> Sandbox:
    """A sandbox for programs like this one, which waits for what to do."""
    with ExitStack() as stack:
        notes = Notes(
            *(
                stack.enter_context(os.fdopen(os.memfd_create(name), "w+b", buffering=0))
                for name in Notes._fields
            )
        )
        waits, go = (stack.enter_context(os.fdopen(end, "wb", 0)) for end in os.pipe())
        handles = (notes.spec.fileno(), notes.word.fileno(), waits.fileno())
        launch = (str(interpreter()), "-I", "-S", "-c", _LAUNCH, *map(str, handles))
        process = subprocess.Popen(  # noqa: S603 - the sandbox, with arguments of ours
            [*_outside(program, bounds, around), *launch, *program.ahead],
            stdin=notes.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_PLAIN_ENV,
            cwd="/",
            pass_fds=(*handles, notes.answer.fileno()) if program.answer else handles,
            start_new_session=True,
        )
        waits.close()
        return Sandbox(process, notes, go, stack.pop_all())


def _outside(program: Program, bounds: Bounds, around: Surroundings) -> Iterable[str]:
    """The command that stands before the launcher; none without walls."""
    if bounds.isolation == "rlimits" or bounds.bwrap is None:
        return ()
    return walls(
        bounds.bwrap,
        net=program.net,
        project=None if program.cwd is None else around.folder.parent,
        hidden=around.folder,
        tmp=bounds.memory // 4,
    )


def _spec(program: Program, bounds: Bounds, around: Surroundings, answer: int) -> dict[str, Any]:
    """What the launcher has to do."""
    walled = bounds.isolation == "bubblewrap"
    uid = stranger() if walled else None
    cpu = max(1, round(bounds.cpu_s))
    files = bounds.memory // 4
    return {
        "code": program.code,
        "argv": [*program.argv, *([str(answer)] if program.answer else [])],
        "path": list(PATH),
        "env": {**_PLAIN_ENV, **program.env},
        "cwd": _cwd(program, around, walled=walled),
        "uid": uid,
        "limits": {
            "RLIMIT_CPU": cpu,
            "RLIMIT_AS": bounds.memory,
            "RLIMIT_FSIZE": files,
            "RLIMIT_NOFILE": _FILES_MAX,
            "RLIMIT_CORE": 0,
            "RLIMIT_NPROC": bounds.procs + 1 + _others(uid, walled=walled),
        },
    }


def _cwd(program: Program, around: Surroundings, *, walled: bool) -> str:
    if program.cwd is None:
        return _TMP
    return f"{PROJECT if walled else around.folder.parent}/{program.cwd}"


def _others(uid: int | None, *, walled: bool) -> int:
    """How many processes of that user run already; the kernel counts them all together.

    In a user namespace of its own a sandbox counts from zero.
    """
    if walled and uid is None:
        return 0
    wanted = os.geteuid() if uid is None else uid
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                count += entry.stat().st_uid == wanted
    return count


def _told(word: bytes, ended: Ended) -> Ended | Failed:
    """What the launcher said: ready and no more, or why there was no program."""
    lines = word.decode("ascii", "replace").split("\n")
    if lines[0] == "ready" and not lines[1]:
        return ended
    if not lines[0]:
        reason = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        return Failed("server_error", "sandbox.failed", f"the sandbox did not start: {reason}")
    what, _, number = lines[0 if lines[0] != "ready" else 1].partition(" ")
    reason = os.strerror(int(number))
    if what == "cwd":
        return Failed("not_found", "sandbox.cwd", f"the working directory: {reason}")
    return Failed("not_found", "sandbox.program", f"the program: {reason}")
