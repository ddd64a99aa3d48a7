"""What runs in the sandbox of `python.run`: it defines, calls and answers in JSON.

The text of this file is given to a fresh interpreter, so it imports the standard library alone, and
only what each call of it needs.
Standard input holds the code, the entry and the arguments; the answer goes to a handle of its own,
so that the code may print what it likes.
"""

from __future__ import annotations

import json
import os
import site
import sys

TYPE_CHECKING = False  # as in typing, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any


def main(handle: int) -> None:
    """Answer `{"result": ..}`, or `{"raised": ..}` with the traceback on standard error."""
    asked = json.load(sys.stdin)
    prepare(all_of_it=asked["net"])
    answer: dict[str, Any]
    try:
        answer = {"result": call(asked)}
        text = json.dumps(answer, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its answer
        import traceback  # noqa: PLC0415 - most code raises nothing

        traceback.print_exc()
        text = json.dumps({"raised": type(error).__name__, "message": said(error)})
    sys.stdout.flush()
    rest = text.encode()
    while rest:
        rest = rest[os.write(handle, rest) :]


def said(error: BaseException) -> str:
    """What an error says; its text is made by the code, and may be none."""
    try:
        return str(error)[:1000]
    except BaseException:  # noqa: BLE001 - as above
        return ""


class Installed:
    """Finds what the standard library has not: packages that are installed beside it.

    Their places are looked up when the first such name is wanted: what they run at the start of an
    interpreter may take longer than the code.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Become what the interpreter does at its start, and look again."""
        sys.meta_path.remove(cls)
        site.main()
        for finder in list(sys.meta_path):
            found = finder.find_spec(name, path, target)
            if found is not None:
                return found
        return None


def prepare(*, all_of_it: bool) -> None:
    """Make the interpreter one with `exit` and installed packages.

    With a network everything is there at once: certificates and proxies may be set up by them.
    """
    if all_of_it:
        site.main()
    else:
        site.setquit()
        sys.meta_path.append(Installed)


def call(asked: dict[str, Any]) -> Any:
    """Define the code in a module of its own and call its entry."""
    names: dict[str, Any] = {"__name__": "run"}
    exec(compile(asked["code"], "<python.run>", "exec"), names)  # noqa: S102 - this is its purpose
    entry, args = names[asked["entry"]], asked["args"]
    if isinstance(args, dict):
        return entry(**args)
    if isinstance(args, list):
        return entry(*args)
    return entry() if args is None else entry(args)


if __name__ == "__main__":
    main(int(sys.argv[-1]))
