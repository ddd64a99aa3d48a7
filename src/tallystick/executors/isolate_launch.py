"""What runs first in a sandbox: it takes on limits and another user, then becomes the program.

The text of this file is given to a fresh interpreter, so it imports the standard library alone.
It reads what to do from one handle and says on another that all was ready, or why it was not.
Arguments and environment come this way, so that no list of processes shows them and no variable
of theirs reaches the program that builds the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import sys
from typing import Any


def main(spec_handle: int, word_handle: int) -> None:
    """Become the program; comes back only by exit code 127, with the reason told."""
    with os.fdopen(spec_handle, "rb") as file:
        spec = json.load(file)
    if spec["uid"] is not None:
        os.setgroups([])
        os.setresgid(spec["uid"], spec["uid"], spec["uid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    os.nice(10)  # what runs here must not slow the node
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"1000")  # if memory is short, this goes first
        os.close(score)
    for name, most in spec["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        tell(word_handle, f"cwd {error.errno}")
    # What the interpreter ignores, or whoever started the node, a program would inherit.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(word_handle, False)
    os.write(word_handle, b"ready\n")
    tell(word_handle, f"program {become(spec)}")


def become(spec: dict[str, Any]) -> int:
    """Start the program in this process; the error number of why it did not."""
    name = spec["argv"][0]
    # The path is ours: a variable of the request must not choose which program a name means.
    places = [name] if "/" in name else [f"{place}/{name}" for place in spec["path"]]
    found = errno.ENOENT
    for place in places:
        try:
            os.execve(place, spec["argv"], spec["env"])  # noqa: S606 - this is its purpose
        except OSError as error:
            if error.errno != errno.ENOENT:
                found = error.errno or errno.EIO
    return found


def tell(handle: int, word: str) -> None:
    """Say why there is no program, and end."""
    os.write(handle, f"{word}\n".encode())
    os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
