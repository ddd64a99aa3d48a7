"""What runs first in a sandbox: it takes on limits and another user, then becomes the program.

The text of this file is given to a fresh interpreter, so it imports the standard library alone, and
as little of that as will do: most of what a short program takes is the time until it begins.
It waits until the node lets it go, reads what to do from one handle and says on another that all
was ready, or why it was not.
Arguments and environment come this way, so that no list of processes shows them and no variable
of theirs reaches the program that builds the sandbox.
A program of Python is run by this very interpreter; any other takes its place.
"""

from __future__ import annotations

import errno
import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the public one makes enumerations first

# Those that the interpreter itself has set, for a program of Python to find.
PYTHONS = {signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}


def main(spec_handle: int, word_handle: int, go_handle: int, ahead: list[str]) -> None:
    """Become the program; comes back only by exit code 127, with the reason told."""
    os.nice(10)  # what runs here must not slow the node
    for name in ahead:
        __import__(name)
    if not os.read(go_handle, 1):
        os._exit(0)  # there will be no program
    os.close(go_handle)
    with os.fdopen(spec_handle, "rb") as file:
        spec = marshal.load(file)  # noqa: S302 - the node wrote it
    confine(spec)
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        tell(word_handle, f"cwd {error.errno}")
    # What the interpreter ignores, or whoever started the node, a program would inherit.
    own = PYTHONS if spec["code"] is not None else set()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - own:
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(word_handle, False)
    os.write(word_handle, b"ready\n")
    if spec["code"] is None:
        tell(word_handle, f"program {become(spec)}")
    os.close(word_handle)  # nothing of the request has a say in it
    play(spec)


def confine(spec: dict[str, Any]) -> None:
    """Take on another user and the limits; neither can be given back."""
    if spec["uid"] is not None:
        os.setgroups([])
        os.setresgid(spec["uid"], spec["uid"], spec["uid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        pass  # not every machine has it
    else:
        os.write(score, b"1000")  # if memory is short, this goes first
        os.close(score)
    for name, most in spec["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))


def play(spec: dict[str, Any]) -> None:
    """Run a program of Python here, as if the interpreter had been started for it."""
    os.environ.clear()
    os.environ.update(spec["env"])
    sys.argv[:] = spec["argv"]
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(spec["code"], "<program>", "exec"), names)  # noqa: S102 - this is its purpose


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
        except ValueError:  # a word that no program can be given
            found = errno.EINVAL
    return found


def tell(handle: int, word: str) -> None:
    """Say why there is no program, and end."""
    os.write(handle, f"{word}\n".encode())
    os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
