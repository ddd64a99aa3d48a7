"""Compiled WASM modules kept from one start to the next: `cache/wasm/` of the node's folder.

What lies there is native code that this process will run, so nothing is believed because of where
it lies: each file begins with a signature of the node's own key over its name and its content, and
a file that others could have written, or that says anything else, is not read.
The name covers the module, the engine with its settings and the processor; bundles never carry
compiled code, and what a worker process compiled is not kept.
In the same way `cache/vouched/` says which modules need no worker process.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from tallystick.values.seal import KeyPair

_SIGNATURE: Final = 64
_CPU: Final = Path("/proc/cpuinfo")


class SignedFiles:
    """Reads and keeps small things that only the holder of a key can have put there.

    The key is asked for when the first one is; `target` is part of every name.
    """

    def __init__(self, folder: Path, key: Callable[[], KeyPair], target: bytes = b"") -> None:
        self._folder = folder
        self._key = key
        self._target = target

    def get(self, name: bytes) -> bytes | None:
        """What was kept under a name, if it is ours to the last byte; else None."""
        place = self._place(name)
        try:
            held = place.read_bytes()
        except OSError:
            return None
        signature, data = held[:_SIGNATURE], held[_SIGNATURE:]
        # The same key signs the same bytes alike, so making the signature again is checking it.
        return data if signature == self._signature(place.name, data) else None

    def put(self, name: bytes, data: bytes) -> None:
        """Keep something; a disk that will not have it costs only the time of the next start."""
        place = self._place(name)
        fresh = place.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(self._signature(place.name, data) + data)
            fresh.replace(place)
        except OSError:
            fresh.unlink(missing_ok=True)

    def _place(self, name: bytes) -> Path:
        return self._folder / sha256(name + self._target).hexdigest()

    def _signature(self, name: str, data: bytes) -> bytes:
        return self._key().signature(b"tallystick wasm " + name.encode() + sha256(data).digest())


class WasmCache(SignedFiles):
    """Compiled modules, for this machine."""

    def __init__(self, folder: Path, key: Callable[[], KeyPair]) -> None:
        super().__init__(folder, key, _target())


class Vouched:
    """The modules that somebody of this node has sealed, so that they may run in the node itself.

    A note that is lost costs the time of a worker process and nothing else.
    """

    def __init__(self, data: Path, key: Callable[[], KeyPair]) -> None:
        self._notes = SignedFiles(data / "cache" / "vouched", key)

    def add(self, artifacts: Iterable[str]) -> None:
        """Vouch for some modules."""
        for artifact in artifacts:
            self._notes.put(artifact.encode(), b"")

    def has(self, artifact: str) -> bool:
        """True when somebody does."""
        return self._notes.get(artifact.encode()) is not None


def _target() -> bytes:
    """The machine and what its processor can do: code for another one must not be run here."""
    try:
        flags = [line for line in _CPU.read_text().splitlines() if line.startswith("flags")][:1]
    except OSError:
        flags = []
    return sha256(repr((platform.machine(), platform.system(), flags)).encode()).digest()
