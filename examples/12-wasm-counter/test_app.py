"""The module in WAT gives the bytes that the function in Python gives, tick by tick."""

import inspect
from pathlib import Path

import pytest
from app import Add, Count, Full, Reset, app, counter
from tallystick.testing import TestWorld, in_wasm

wasmtime = pytest.importorskip("wasmtime", reason="the WASM module was NOT run: no engine here")
WAT = Path(inspect.getsourcefile(counter)).parent / "counter.wat"
SENT = [("a", 4), ("b", 9), ("a", 5), ("a", 1), ("a", 1), ("b", 300), ("c", 2**40)]


def counted(made):
    world = TestWorld(made)
    for name, n in SENT:
        world.send(Add(name=name, n=n))
    world.send(Reset(name="b"))
    world.assert_replays()
    return world


def test_python_and_wasm_are_equal():
    python = counted(app)
    wasm = counted(in_wasm(app, bytes(wasmtime.wat2wasm(WAT.read_text()))))
    assert wasm.cells() == python.cells()
    assert wasm.events(Full) == python.events(Full)
    assert wasm.cell(counter, "a").state == Count(total=10, phase="full")
    assert wasm.cell(counter, "b") is None
