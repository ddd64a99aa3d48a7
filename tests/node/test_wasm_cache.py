"""Compiled WASM is kept from one start to the next, and believed only to the last byte (AU-23)."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.here import modules_of
from tallystick.errors import BadDefinition
from tallystick.kernel.inputs import Submit
from tallystick.model.records import WorkflowFaulted
from tallystick.modules import wasm_engine
from tallystick.modules.wasm_engine import Compiled
from tallystick.node.host import close_node, open_node
from tallystick.node.wasm_cache import WasmCache
from tallystick.values import canon
from tallystick.values.seal import KeyPair, bundle_statement
from tests.conformance.abi_lanes import app_of, wasm
from tests.modules.wasm_world import STEP, WasmRig
from tests.node.rig import config

KEY = KeyPair(bytes(32))


class Counting:
    """The cache, and how often it had to be filled."""

    def __init__(self, cache: WasmCache) -> None:
        self.cache = cache
        self.puts = 0

    def get(self, name: bytes) -> bytes | None:
        return self.cache.get(name)

    def put(self, name: bytes, data: bytes) -> None:
        self.puts += 1
        self.cache.put(name, data)


def kept_in(folder: Path, key: KeyPair = KEY) -> Counting:
    return Counting(WasmCache(folder, lambda: key))


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_module_is_compiled_once(tmp_path: Path) -> None:
    """AU-23: the second start takes the compiled code; its file and folder are ours alone."""
    first = kept_in(tmp_path / "wasm")
    made = Compiled(wasm("wat"), first)
    again = kept_in(tmp_path / "wasm")
    taken = Compiled(wasm("wat"), again)
    assert (first.puts, again.puts) == (1, 0)
    assert taken.entries == made.entries
    assert taken.module.serialize() == made.module.serialize()
    (file,) = files(tmp_path / "wasm")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("where", ["signature", "code", "cut", "empty", "renamed", "another key"])
def test_an_altered_file_is_compiled_anew(tmp_path: Path, where: str) -> None:
    """AU-23: one bit anywhere, a shorter file, another name or another signer: not read."""
    folder = tmp_path / "wasm"
    Compiled(wasm("wat"), kept_in(folder))
    (file,) = files(folder)
    data = bytearray(file.read_bytes())
    if where in ("signature", "code"):
        data[3 if where == "signature" else len(data) // 2] ^= 1
        file.write_bytes(data)
    elif where in ("cut", "empty"):
        file.write_bytes(data[:-1] if where == "cut" else b"")
    elif where == "renamed":
        other = kept_in(tmp_path / "other")
        Compiled(wasm("wat"), other)
        (theirs,) = files(tmp_path / "other")
        # The compiled code of one module under the name of another, rightly signed as itself.
        theirs.rename(folder / ("0" * 64))
        file.unlink()
        assert WasmCache(folder, lambda: KEY).get(b"anything") is None
    key = KeyPair(bytes(31) + b"1") if where == "another key" else KEY
    again = kept_in(folder, key)
    Compiled(wasm("wat"), again)
    assert again.puts == 1
    healed = kept_in(folder, key)
    Compiled(wasm("wat"), healed)
    assert healed.puts == 0


def test_code_of_another_engine_is_not_taken(tmp_path: Path) -> None:
    """AU-23: what the engine refuses, though we signed it, is compiled anew."""
    cache = kept_in(tmp_path / "wasm")
    made = Compiled(wasm("wat"), cache)
    (file,) = files(tmp_path / "wasm")
    file.unlink()

    class Foreign(Counting):
        def get(self, name: bytes) -> bytes | None:
            return b"\x7fELF of somebody else"

    foreign = Foreign(cache.cache)
    assert Compiled(wasm("wat"), foreign).entries == made.entries
    assert foreign.puts == 1


def test_compiled_code_in_a_bundle_is_refused() -> None:
    """AU-23: a bundle brings modules, never native code; a world with some faults and goes on."""
    native = bytes(Compiled(wasm("wat")).module.serialize())
    with pytest.raises(BadDefinition) as caught:
        Compiled(native)
    assert caught.value.code == "wasm.invalid"
    rig = WasmRig(native)
    rig.send(STEP, {"name": "a", "n": 1})
    (fault,) = [each for each in rig.records() if isinstance(each, WorkflowFaulted)]
    assert fault.message.startswith("wasm.invalid: ")


def test_a_node_keeps_what_it_compiled(tmp_path: Path) -> None:
    """AU-23: `cache/wasm` of the node's folder, signed with its key; the next start reads it."""

    async def run(value: Any) -> None:
        settings = config(tmp_path)
        node = await open_node(settings, modules_of(settings))
        try:
            known = node.resolve("counter") if value["n"] > 1 else None
            bundle = app_of("wat").bundle
            seal = node.key.pair.sign(bundle_statement(bundle=bundle.root))
            ours = bundle.sealed(canon.encode([seal]))
            world = known or await node.create("counter", ours)
            await node.offer(world, Submit(node.clock.sample(), "counter/Add@1", value))
            assert await node.quiet(world, 60_000)
        finally:
            await close_node(node)

    asyncio.run(run({"name": "a", "n": 1}))
    folder = config(tmp_path).data / "cache" / "wasm"
    (file,) = files(folder)
    written = file.stat().st_mtime_ns
    asyncio.run(run({"name": "a", "n": 2}))
    assert files(folder) == [file]
    assert file.stat().st_mtime_ns == written
    assert wasm_engine.ENGINE.startswith("wasmtime/")
