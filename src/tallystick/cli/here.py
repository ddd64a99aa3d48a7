"""The node in this process: for commands that find no running one.

The files are opened under the same lock, and the same application answers; only the socket is
missing.
A passive node performs no effects: a command that reads or admits an event needs none, and what it
leaves open is taken up by the next `tally serve`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from tallystick.api.app import make_app
from tallystick.api.front import Api
from tallystick.cli.request import Reply, Request
from tallystick.errors import Unavailable
from tallystick.kernel.index import Blobs
from tallystick.model.abi import Runner
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.config import Config
from tallystick.node.host import close_node, open_node
from tallystick.node.hosting import Modules
from tallystick.node.keys import node_key
from tallystick.node.node import Node
from tallystick.node.wasm_cache import Vouched, WasmCache
from tallystick.node.wasm_workers import Workers
from tallystick.values.seal import KeyPair

T = TypeVar("T")


class _NodeModules:
    """Makes the runner of each world; compiled code is shared between them and kept.

    WASM that nobody of this node vouches for runs in worker processes, which `close` ends.
    """

    def __init__(self, data: Path, *, check_all: bool) -> None:
        def key() -> KeyPair:
            return node_key(data / "keys").pair

        self._workers = Workers(Vouched(data, key))
        self._library = Library(WasmCache(data / "cache" / "wasm", key), self._workers)
        self._check_all = check_all

    def __call__(self, blobs: Blobs) -> Runner:
        lanes = {"builtin": Builtin()}
        return Runners(blobs, library=self._library, lanes=lanes, check_all=self._check_all)

    def close(self) -> None:
        self._workers.close()


def modules_of(config: Config | None = None, *, check_all: bool = False) -> Modules:
    """How a node of this folder runs the code of its worlds; without one, all of it here."""
    if config is not None:
        return _NodeModules(config.data, check_all=check_all)
    library, lanes = Library(), {"builtin": Builtin()}
    return lambda blobs: Runners(blobs, library=library, lanes=lanes, check_all=check_all)


class HereClient:
    """A node that lives as long as one command."""

    alone = True

    def __init__(self, config: Config, *, passive: bool) -> None:
        self._loop = asyncio.Runner()
        try:
            self._node, self._api = self._loop.run(_open(config, passive=passive))
        except BaseException:
            self._loop.close()
            raise

    def ask(self, request: Request) -> Reply:
        """One request to the application, without a wire."""
        return self._loop.run(called(self._api, request))

    def pour(self, request: Request) -> Iterator[bytes]:
        """A stream would never end here: nobody else can write while this command has the lock."""
        raise Unavailable(
            f"{request.path} needs a running node",
            code="node.not_running",
            hint="start one with `tally serve`",
        )

    def pause(self, seconds: float) -> None:
        """Let the node go on: it lives in the loop of this thread."""
        self._loop.run(asyncio.sleep(seconds))

    def beside(self) -> _Beside:
        """The same node, asked by another thread while this one waits for an answer."""
        return _Beside(self, self._loop.get_loop(), self._api)

    def run(self, act: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """Something that only this process may do with the node."""
        return self._loop.run(act(self._node))

    def close(self) -> None:
        """Close the node: commit, snapshot, let go of the lock."""
        try:
            self._loop.run(_close(self._node, self._api))
        finally:
            self._loop.close()


_BESIDE_S: Final = 1.0  # a command that does not wait answers nobody


class _Beside:
    """Asks the node of a command from another thread; it answers while the command waits."""

    alone = True

    def __init__(self, client: HereClient, loop: asyncio.AbstractEventLoop, api: Api) -> None:
        self._client = client
        self._loop = loop
        self._api = api

    def ask(self, request: Request) -> Reply:
        """One request, answered between two steps of what is asked by the command."""
        asked = asyncio.run_coroutine_threadsafe(called(self._api, request), self._loop)
        try:
            return asked.result(_BESIDE_S)
        except TimeoutError:
            asked.cancel()
            raise Unavailable("the command is not waiting", code="node.not_running") from None

    def pour(self, request: Request) -> Iterator[bytes]:
        """As for the command itself."""
        return self._client.pour(request)

    def pause(self, seconds: float) -> None:
        """Sleep: the loop is the command's."""
        time.sleep(seconds)

    def beside(self) -> _Beside:
        """This one serves any thread."""
        return self

    def close(self) -> None:
        """The node is the command's."""


async def _open(config: Config, *, passive: bool) -> tuple[Node, Api]:
    node = await open_node(config, modules_of(config), passive=passive)
    try:
        return node, await make_app(node)
    except BaseException:
        await close_node(node, 0)
        raise


async def _close(node: Node, api: Api) -> None:
    api.close()
    await close_node(node)


async def called(api: Api, request: Request) -> Reply:
    """The reply of the application to one request of this process."""
    body, headers = request.content()
    raw_path, _, query = request.target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": request.method,
        "path": raw_path,
        "raw_path": raw_path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": _raw(headers, api.local, len(body or b"")),
    }
    sent: list[Any] = []
    came = iter([{"type": "http.request", "body": body or b"", "more_body": False}])

    async def receive() -> Any:
        return next(came, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    await api(scope, receive, send)
    start = sent[0]
    held = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]
    }
    return Reply(start["status"], held, b"".join(part.get("body", b"") for part in sent[1:]))


def _raw(headers: dict[str, str], token: str, length: int) -> list[tuple[bytes, bytes]]:
    held = {**headers, "Host": "localhost", "Authorization": f"Bearer {token}"}
    held["Content-Length"] = str(length)
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in held.items()
    ]
