"""A WASM worker: runs modules that nobody of this node vouches for, in a process of its own.

What a module might break in the engine it breaks here, where there is no journal, no key and no
secret: the process is given one socket and no environment.
It ends when the node closes the socket or dies.
Run as `python -m tallystick.node.wasm_worker FD`.
"""

from __future__ import annotations

import resource
import socket
import sys
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.model.abi import Halted
from tallystick.modules.wasm_call import Call, Place
from tallystick.node.wasm_wire import WireError, put, take
from tallystick.values import canon

_FILES: Final = 1024  # handles that may be open at once: the image of a module is one


class _Codes:
    """The modules that the node has sent, by digest."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def get(self, digest: bytes, /) -> bytes | None:
        return self.held.get(digest)


def serve(wire: socket.socket) -> None:
    """Answer until the other side is gone."""
    # The engine is an extra: a node names this program without having it.
    from tallystick.modules.wasm_run import Instances  # noqa: PLC0415

    codes = _Codes()
    instances = Instances(codes)
    _confine()
    put(wire, {"ready": True}, b"", _patient)
    while True:
        try:
            asked, body = take(wire, _patient)
        except WireError:
            return
        if asked["do"] == "code":
            codes.held[canon.raw_of(asked["artifact"])] = body
            continue
        made = (
            _entries(instances, asked) if asked["do"] == "entries" else _ran(instances, asked, body)
        )
        put(wire, *made, _patient)


def _entries(instances: Place, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        return {"entries": sorted(instances.entries(asked["artifact"]))}, b""
    except BadDefinition as why:
        return {"refused": [why.code, why.message]}, b""


def _ran(instances: Place, asked: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    limits = (asked["fuel"], asked["memory_bytes"])
    try:
        ran = instances.run(Call(asked["artifact"], asked["entrypoint"], body, *limits))
    except BadDefinition as why:
        return {"refused": [why.code, why.message]}, b""
    if isinstance(ran, Halted):
        limit = None if ran.limit is None else dict(ran.limit)
        return {"halted": [ran.code, ran.message, ran.fuel, ran.engine, limit]}, b""
    return {"fuel": ran.fuel}, ran.data


def _patient() -> None:
    """The node may be silent for as long as it likes."""


def _confine() -> None:
    """Give up what running modules needs none of; called when everything is loaded."""
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _FILES)):
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        serve(own)
