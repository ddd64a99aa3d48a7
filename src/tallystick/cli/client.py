"""How a command reaches a node: over a socket, or in this process.

A running node leaves `run/node.json` with its address and `run/token` for whoever may read its
folder.
When nobody answers there, the command opens the files itself, under the same lock (`cli/here.py`),
and asks the same application: a command has one way through, and the shapes are the API's.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from tallystick.cli.problem import error_of
from tallystick.cli.request import Reply, Request
from tallystick.errors import Rejected, Unavailable

TIMEOUT_S: Final = 120.0
UNKNOWN: Final = 401
_HEADER: Final = re.compile(r"[ -~]*")


class Client(Protocol):
    """Whoever answers requests; one that is `alone` keeps all others from the files meanwhile."""

    @property
    def alone(self) -> bool:
        """True when the node lives in this command."""
        ...

    def ask(self, request: Request) -> Reply:
        """One request, one reply."""
        ...

    def pour(self, request: Request) -> Iterator[bytes]:
        """The lines of a reply that does not end; refuses like `ask` when it is no stream."""
        ...

    def pause(self, seconds: float) -> None:
        """Let time pass before asking again; a node in this process goes on meanwhile."""
        ...

    def beside(self) -> Client:
        """A second way to the same node, for another thread; who takes it closes it."""
        ...

    def close(self) -> None:
        """Give back what was opened."""
        ...


class SocketClient:
    """A node behind an address; one connection, kept between requests."""

    alone = False

    def __init__(self, url: str, token: str, timeout_s: float = TIMEOUT_S) -> None:
        scheme, host, port = _address(url)
        kind = http.client.HTTPSConnection
        self._line = (http.client.HTTPConnection if scheme == "http" else kind)(
            host, port, timeout=timeout_s
        )
        self._url = url
        self._token = token
        self._timeout_s = timeout_s

    def ask(self, request: Request) -> Reply:
        """One request; a node that cannot be reached is `node.unreachable`."""
        reply = self._send(request)
        with self._answering():
            return Reply(reply.status, _lowered(reply), reply.read())

    def pour(self, request: Request) -> Iterator[bytes]:
        """The lines of a stream until the node ends it."""
        reply = self._send(request)
        with self._answering():
            if reply.status != 200:
                raise error_of(Reply(reply.status, _lowered(reply), reply.read()))
        while line := self._line_of(reply):
            yield line.rstrip(b"\r\n")

    def _line_of(self, reply: http.client.HTTPResponse) -> bytes:
        with self._answering():
            return reply.readline()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Whoever cuts an answer is no more there than who gives none."""
        try:
            yield
        except (OSError, http.client.HTTPException) as why:
            self._line.close()
            raise Unavailable(
                f"no node answers at {self._url}: {why or type(why).__name__}",
                code="node.unreachable",
                where={"url": self._url},
                hint="start one with `tally serve`, or leave --url out to use the files",
            ) from why

    def _send(self, request: Request) -> http.client.HTTPResponse:
        body, headers = request.content()
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        _check_headers(headers.values())
        with self._answering():
            self._line.request(request.method, request.target, body, headers)
            return self._line.getresponse()

    def pause(self, seconds: float) -> None:
        """Sleep: the node is another process."""
        time.sleep(seconds)

    def beside(self) -> SocketClient:
        """Another connection to the same address."""
        return SocketClient(self._url, self._token, self._timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


def reachable(url: str, token: str) -> tuple[str, str]:
    """An address and a token for who connects in another way; refuses what can never be used."""
    _address(url)
    _check_headers([token])
    return url, token


def _check_headers(values: Iterable[str]) -> None:
    if not all(_HEADER.fullmatch(value) for value in values):
        raise Rejected(
            "the token or another header holds what no header may hold",
            code="request.bad_header",
            hint="copy it again, without a line break",
        )


def _address(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; refuses with `request.bad_url` what is no address."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.scheme, parts.hostname, parts.port
    except ValueError:
        pass  # a port that is no number, or half an IPv6 address
    raise Rejected(
        f"{url!r} is no address of a node",
        code="request.bad_url",
        hint="write http://127.0.0.1:8255",
    )


def _lowered(reply: http.client.HTTPResponse) -> dict[str, str]:
    return {key.lower(): value for key, value in reply.getheaders()}


def live_node(data: Path) -> tuple[str, str] | None:
    """The address and the local token of the node that serves a folder, or None.

    A file that a killed node left behind is told from a live node by asking: only an answer counts,
    and only of who knows the token, because another node may listen there by now.
    """
    note, secret = data / "run" / "node.json", data / "run" / "token"
    try:
        said = note.read_text("utf-8")
        if not said.strip("\0 \n"):
            return None  # what a power cut leaves of a file that was just written
        url = str(json.loads(said)["url"])
        token = secret.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as why:
        raise Rejected(
            f"{note} cannot be read: {why}",
            code="node.bad_note",
            where={"path": str(note)},
            hint="stop the node, remove the file and start the node again",
        ) from why
    return (url, token) if _is_known(url, token) else None


def _is_known(url: str, token: str) -> bool:
    """True when somebody answers there who knows the token."""
    client = SocketClient(url, token, timeout_s=2.0)
    try:
        # No route, so nothing has to be done for it; only the known are told so.
        return client.ask(Request("GET", "/v1")).status != UNKNOWN
    except Unavailable:
        return False
    finally:
        client.close()
