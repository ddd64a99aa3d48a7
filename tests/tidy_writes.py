"""The rule that no code but the file executor writes in a workspace (RX-08).

It is a reading of the source, not a proof: it finds calls that open for writing, make, move or
remove a name, and asks that whoever has one stands in a table that says where it writes.
The audit hook of `tests/reactions/test_node.py` is the other half: what really is opened.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy import Finding, Source

DATA, ASKED, OWN = "the data folder", "where its user says", "the runtime's own .tally/"
WORKSPACE: Final = "a workspace, under a durable intent"
SCRATCH: Final = "a scratch folder of its own"
# Who may write at all, and where: a module of the package, or all that begin with the name.
WRITERS: Final = {
    "executors/file": WORKSPACE,
    "node/workspaces.py": OWN,
    "journal/": DATA,
    "node/": DATA,
    "executors/vault.py": DATA,
    "executors/telemetry.py": DATA,
    "executors/isolate_launch.py": SCRATCH,
    "api/answers.py": DATA,
    "api/serve.py": DATA,
    "cli/": ASKED,
    "testing/": ASKED,
}
# Rooms that read workspaces: here a place in the table is not enough.
NEVER: Final = ("reactions/", "node/watch_disk.py", "node/lookout.py", "node/watching.py",
                "node/inquiry.py", "node/observed.py", "node/definitions_found.py",
                "node/recomputed.py", "node/simulated.py", "node/stamps_log.py",
                "node/watch_hints.py", "cli/workspace.py", "cli/reaction.py")  # fmt: skip
_ALWAYS: Final = frozenset(
    ("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "unlink", "rename",
     "mkdir", "rmdir", "makedirs", "rmtree", "copytree", "copyfile", "mknod", "mkfifo")
)  # fmt: skip
_OF_OS: Final = frozenset(("replace", "link", "symlink", "truncate", "ftruncate", "remove"))
_FLAGS: Final = frozenset(("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"))


def _mode(call: ast.Call) -> str:
    """The mode that a call of `open` states; of a path it is the first word, else the second."""
    at = 0 if isinstance(call.func, ast.Attribute) else 1
    words = [*call.args[at : at + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    return "".join(str(w.value) for w in words if isinstance(w, ast.Constant))


def _writes(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=attr) if attr in _FLAGS:
            return True
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open")):
            return any(letter in _mode(node) for letter in "wax+")
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _ALWAYS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=attr)):
            return attr in _OF_OS
        case _:
            return False


def writing(source: Source) -> list[int]:
    """The lines of a file that open for writing, or change a name."""
    parts = (node for node in ast.walk(source.tree) if isinstance(node, ast.expr))
    return sorted({node.lineno for node in parts if _writes(node)})


def place_of(path: str) -> str | None:
    """Where a module of the package may write; None: nowhere."""
    if path.startswith(NEVER):
        return None
    return next((place for name, place in WRITERS.items() if path.startswith(name)), None)


def writes_in_workspaces(source: Source) -> Iterator[Finding]:
    """Every line that writes in a module without a place to write."""
    inside = source.path.removeprefix("src/tallystick/")
    if inside == source.path or place_of(inside) is not None:
        return
    for line in writing(source):
        yield line, "writes files: in a workspace only executors/file may, by an intent"
