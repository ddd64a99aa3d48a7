"""Serving: the listener, the files that say where a node is, and a quiet end.

`run/token` is written for whoever may read the node's folder, `run/node.json` only once the node
answers; both are gone when it has stopped.
Another address than loopback needs TLS, or somebody who says that it shall not matter.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import signal
import ssl
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from tallystick.api.front import Api
from tallystick.api.http1 import Limits, Listener
from tallystick.errors import Rejected, Unavailable
from tallystick.node.config import HttpSettings

BACKLOG: Final = 1024


class Address(NamedTuple):
    """Where to listen, and with which certificate."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        """The scheme that callers use."""
        return "http" if self.tls is None else "https"


def address_of(http: HttpSettings, *, insecure: bool = False) -> Address:
    """The address of the settings; refuses an open one without TLS."""
    host, _, port = http.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise Rejected(
            f"{http.listen!r} is no address to listen on",
            code="http.bad_address",
            where={"key": "http.listen"},
            hint="write 127.0.0.1:8255",
        )
    tls = _tls(http)
    if tls is None and not insecure and not _is_loopback(host):
        raise Rejected(
            f"{host} can be reached from elsewhere, and there is no TLS",
            code="http.needs_tls",
            where={"key": "http.listen"},
            hint="set http.tls_cert and http.tls_key, listen on 127.0.0.1, or say --insecure",
        )
    return Address(host, int(port), tls)


def _callable(host: str) -> str:
    """The host as a caller of this machine writes it; every address is loopback, too.

    A wildcard is no name of anybody: the door does not open under it.
    """
    try:
        if ipaddress.ip_address(host).is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
    except ValueError:
        pass  # a name
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(http: HttpSettings) -> ssl.SSLContext | None:
    if not http.tls_cert and not http.tls_key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(http.tls_cert, http.tls_key or None)
    except (OSError, ssl.SSLError) as why:
        raise Rejected(
            f"the certificate cannot be used: {why}",
            code="http.bad_certificate",
            where={"key": "http.tls_cert"},
        ) from why
    return context


class Listening:
    """A node that listens."""

    def __init__(self, api: Api, address: Address) -> None:
        http = api.node.config.http
        limits = Limits(
            http.max_header, http.header_timeout_s, http.body_timeout_s, http.conns_per_client
        )
        self.api = api
        self.url = ""
        self._address = address
        self._listener = Listener(api, limits)
        self._run: Path = api.node.folder / "run"
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, then say where; refuses an address that another holds."""
        loop = asyncio.get_running_loop()
        self._listener.now_s = loop.time()
        host, port, tls = self._address
        try:
            self._server = await loop.create_server(
                self._listener.connection, host, port, ssl=tls, backlog=BACKLOG
            )
        except OSError as why:
            raise Unavailable(
                f"cannot listen on {host}:{port}: {why.strerror}",
                code="http.cannot_listen",
                where={"host": host, "port": port},
                hint="stop whoever listens there, or choose another port with --listen",
            ) from why
        self._sweeping = loop.create_task(self._sweep())
        bound = self._server.sockets[0].getsockname()[1]
        self.url = f"{self._address.scheme}://{_callable(host)}:{bound}"
        self.api.sessions.cookie = b"tally_%d" % bound
        self._say_where()

    def _say_where(self) -> None:
        self._run.mkdir(mode=0o700, exist_ok=True)
        _write_private(self._run / "token", self.api.local + "\n")
        name = self.api.node.config.node.name
        started_ns = time.time_ns()
        note = {"url": self.url, "name": name, "pid": os.getpid(), "started_ns": started_ns}
        _write_private(self._run / "node.json", json.dumps(note) + "\n")

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            self._listener.sweep(loop.time())

    async def stop(self, grace_s: float = 1.0) -> None:
        """Take no more requests, end the running ones, and close."""
        for name in ("node.json", "token"):
            with suppress(FileNotFoundError):
                (self._run / name).unlink()
        self.api.stopping.set()
        if self._server is not None:
            self._server.close()
        await self._listener.stop(grace_s)
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self.api.close()


def _write_private(path: Path, text: str) -> None:
    """A file that only its owner reads, whole or not at all."""
    made = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        made.unlink()
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    made.replace(path)


class Signals:
    """SIGTERM and SIGINT as events: the first asks for a quiet end, the second for a quick one."""

    def __init__(self) -> None:
        self.quiet = asyncio.Event()
        self.quick = asyncio.Event()

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    def _came(self) -> None:
        (self.quick if self.quiet.is_set() else self.quiet).set()
