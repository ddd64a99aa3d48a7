"""What runs in the sandbox of `python.run`: it defines, calls and answers in JSON.

The text of this file is given to a fresh interpreter, so it imports the standard library alone.
Standard input holds the code, the entry and the arguments; the answer goes to a handle of its own,
so that the code may print what it likes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any


def main(handle: int) -> None:
    """Answer `{"result": ..}`, or `{"raised": ..}` with the traceback on standard error."""
    asked = json.load(sys.stdin)
    answer: dict[str, Any]
    try:
        answer = {"result": call(asked)}
        text = json.dumps(answer, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its answer
        traceback.print_exc()
        text = json.dumps({"raised": type(error).__name__, "message": str(error)[:1000]})
    sys.stdout.flush()
    rest = text.encode()
    while rest:
        rest = rest[os.write(handle, rest) :]


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
    main(int(sys.argv[1]))
