"""One counter in every language that the ABI is spoken in, each in a world of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from wasmtime import wat2wasm

from tallystick.testing.sources import Built, built, in_wasm
from tallystick.testing.world import TestWorld

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SOURCES = EXAMPLES / "12-wasm-counter"
LANES = ("class", "function", "wat", "c", "assemblyscript")
CLANG = shutil.which("clang")
# What `scripts/toolchains` got, unless TALLY_ASC names another one or one is on the path.
_GOT = EXAMPLES.parent / ".venv" / "toolchains" / "asc" / "node_modules" / ".bin" / "asc"
ASC = os.environ.get("TALLY_ASC") or shutil.which("asc") or shutil.which(_GOT)
TOOLS = {"c": CLANG, "assemblyscript": ASC}
ASC_FLAGS = ["-O", "--runtime", "stub", "--use", "abort="]
FLAGS = ["--target=wasm32", "-mmutable-globals", "-O2", "-nostdlib"]
LINK = ["-Wl,--no-entry", "-Wl,--export=__stack_pointer", "-Wl,-z,stack-size=8192"]


@cache
def wasm(lane: str) -> bytes:
    """The binary of the counter; what compiles it must be there."""
    if lane == "wat":
        return bytes(wat2wasm((SOURCES / "counter.wat").read_text("utf-8")))
    tool = TOOLS[lane]
    assert tool is not None, "who asks for a language has looked for its compiler"
    with TemporaryDirectory() as folder:
        made = Path(folder) / "counter.wasm"
        if lane == "c":
            command = [tool, *FLAGS, *LINK, "-o", str(made), str(SOURCES / "counter.c")]
        else:
            source = shutil.copy(SOURCES / "counter.ts", folder)
            command = [tool, str(source), *ASC_FLAGS, "--outFile", str(made)]
        subprocess.run(command, check=True, cwd=folder)
        return made.read_bytes()


def _class_source() -> str:
    return (EXAMPLES / "01-counter" / "app.py").read_text("utf-8")


def _function_source() -> str:
    """The same program as a function: its first state is its own business."""
    head, tail = _class_source().split("class counter:")
    body = tail.split("    @staticmethod\n")[2].replace("\n    ", "\n")
    function = body.removeprefix("    ").replace("def tick(", "def counter(")
    begun = function.replace(
        "    match state, event:", "    state = state or Count(total=0)\n    match state, event:"
    )
    return head + begun


def app_of(lane: str) -> Built:
    """The app of example 01 with its code in a lane."""
    if lane == "function":
        return built(_function_source())
    made = built(_class_source())
    return made if lane == "class" else in_wasm(made, wasm(lane))


def world_of(lane: str) -> TestWorld:
    """A world of the counter in a lane."""
    return TestWorld(app_of(lane))
