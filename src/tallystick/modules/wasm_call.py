"""A run of a WASM module as a value: what is asked, what is answered, and who may be asked.

Nothing here needs the engine: a node without it knows these words too.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tallystick.errors import BlobLost
from tallystick.model.abi import Halted
from tallystick.values import canon


class Blobs(Protocol):
    """Where artifacts are read from."""

    def get(self, digest: bytes, /) -> bytes | None:
        """The bytes of that digest, or None."""
        ...


class Call(NamedTuple):
    """One run: what, with which document, and how much it may use."""

    artifact: str
    entrypoint: str
    data: bytes
    fuel: int
    memory_bytes: int


class Answered(NamedTuple):
    """What a run gave and what it cost."""

    data: bytes
    fuel: int


class Place(Protocol):
    """Where module code runs: here, or in another process."""

    def entries(self, artifact: str) -> frozenset[str]:
        """What a module exports as entrypoints; refuses one that does not keep the ABI."""
        ...

    def run(self, call: Call) -> Answered | Halted:
        """One run to its end; refuses an artifact that is not there, as `entries` does.

        Whatever the module does wrong is in the answer.
        """
        ...


def code_at(blobs: Blobs, hash_text: str) -> bytes:
    """The bytes of an artifact; refuses one that is not in the store."""
    data = blobs.get(canon.raw_of(hash_text))
    if data is None:
        # A bundle without it is refused, so it was here once.
        raise BlobLost(f"the artifact {hash_text} is not in the store", where={"blob": hash_text})
    return data
