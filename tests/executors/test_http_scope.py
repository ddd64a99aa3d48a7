"""ND-17: no spelling of a URL, no redirect and no resolver leads `http.request` inside.

A sink on loopback counts connections.
Each attack is run twice: with the guard, where the sink must see nothing, and as a control with a
guard that believes everything, where the same attack must arrive.
"""

from __future__ import annotations

import asyncio
import socket
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tallystick.executors.base import Failed, Ok
from tallystick.executors.http import Doors, HttpExecutor, resolve_name
from tallystick.executors.http_guard import GrantGuard, Guard, Hop, Refusal, Request
from tallystick.executors.http_wire import Response, Trace
from tests.executors.jobs import Heard, literal
from tests.executors.servers import Answer, Asked, Site, serving
from tests.executors.test_http import PORTS, asking, perform

FRONT = "127.0.0.2"  # stands for a public server: the grant names its network
GRANT = {"cidrs": ["127.0.0.2/32"]}
NAMES = {
    "inner.example": ["127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "mixed.example": [FRONT, "127.0.0.1"],
    "zoned.example": ["::1%lo"],
    "front.example": [FRONT],
}
FORMS = [
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://LocalHost:{port}/",
    "http://sink.localhost:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[::1%25lo]:{port}/",
    "http://user@127.0.0.1:{port}/",
    "http://front.example@127.0.0.1:{port}/",
    "http://front.example:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@front.example/",
    "http://127.0.0.1:{port}#@front.example/",
    "http://①②⑦.0.0.1:{port}/",
    "http://127。0。0。1:{port}/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://inner.example:{port}/",
    "http://mapped.example:{port}/",
    "http://mixed.example:{port}/",
    "http://zoned.example:{port}/",
    "HTTP://127.0.0.1:{port}/",
    "http:////127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fe80::1]:{port}/",
]


@dataclass(frozen=True)
class Credulous:
    """The planted defect: a guard that reads URLs as people do and refuses no address."""

    def hop(self, grant: Mapping[str, Any], request: Request) -> Hop | Refusal:
        parts = urlsplit(request.url.replace("\\", "/"))
        host = unicodedata.normalize("NFKC", parts.hostname or "").replace("。", ".")
        try:
            port = parts.port or 80
        except ValueError as why:
            return Refusal(str(why))
        return Hop("http", host, port, parts.path or "/", None)

    def refuses(self, grant: Mapping[str, Any], addresses: Sequence[str]) -> str | None:
        # A real metadata server is left alone, also by the control.
        return next((a for a in addresses if a.startswith(("169.254.", "fe80:"))), None)


async def by_table(host: str, port: int) -> list[str]:
    """Names of the table; numbers and local names as the system reads them."""
    if host in NAMES:
        return NAMES[host]
    if host.endswith(".example"):
        raise OSError("unknown")
    try:
        return await resolve_name(host, port)
    except UnicodeError as why:
        raise OSError(str(why)) from why


@asynccontextmanager
async def sink() -> AsyncIterator[Site]:
    """One counter behind every loopback address that this machine has."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(serving(lambda _: Answer(body=b"sunk")))
        first.connections = 0
        if socket.has_ipv6:
            try:
                other = serving(lambda _: Answer(body=b"sunk"), host="::1", port=first.port)
                second = await stack.enter_async_context(other)
                stack.callback(
                    lambda: setattr(first, "connections", first.connections + second.connections)
                )
            except OSError:
                pass  # no IPv6 loopback here: the four numbers of IPv4 remain
        yield first


async def attack(guard: Guard, *, by_redirect: bool) -> tuple[int, list[Any]]:
    """Every form once, asked for directly or named by a redirect; hits and outcomes."""
    outcomes = []
    async with sink() as target:
        where: list[str] = []

        def redirect(_: Asked) -> Answer:
            return Answer(302, (("location", where[0]),))

        async with serving(redirect, host=FRONT) as front:
            for form in FORMS:
                url = form.format(port=target.port)
                where[:] = [url.encode("utf-8").decode("latin-1")]
                if by_redirect:
                    url = f"http://front.example:{front.port}/"
                made = asking(url, redirects=2, grant=GRANT, headers={"x": literal("y")})
                doors: dict[str, Any] = {"guard": guard, "resolve": by_table}
                # The control really connects, and some forms may lead to nobody who answers.
                limit_s = 5 if isinstance(guard, Credulous) else 60
                outcomes.append(await perform(made, {"timeout_s": limit_s}, **doors))
            assert len(front.asked) >= len(FORMS) if by_redirect else not front.asked
    return target.connections, outcomes


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("by_redirect", [False, True], ids=["asked", "redirected"])
def test_no_form_of_url_leads_inside(by_redirect: bool) -> None:
    """ND-17, AG-07: every form is refused and the sink stays silent; the control reaches it."""
    hits, outcomes = asyncio.run(attack(GrantGuard(), by_redirect=by_redirect))
    assert hits == 0
    assert len(FORMS) >= 25
    shown = [(f, o) for f, o in zip(FORMS, outcomes, strict=True) if not isinstance(o, Failed)]
    assert shown == []
    # Not every system knows names below localhost.
    assert {o.kind for o in outcomes if o.code != "http.unknown_host"} == {"scope"}
    hits, _ = asyncio.run(attack(Credulous(), by_redirect=by_redirect))
    assert hits >= 12, "control: the forms lead to the sink when nobody judges them"


class Rebinding:
    """A resolver that answers a public address first and an inside one ever after."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, _host: str, _port: int) -> list[str]:
        self.calls += 1
        return [FRONT] if self.calls == 1 else ["127.0.0.1"]


class AskedTwice(HttpExecutor):
    """The planted defect: judge one answer of the resolver, connect to the next."""

    async def _one(
        self, grant: Mapping[str, Any], request: Request, hop: Hop, trace: Trace
    ) -> Response | Failed:
        judged = await self._doors.resolve(hop.host, hop.port)
        assert self._doors.guard.refuses(grant, judged) is None
        found = await self._doors.resolve(hop.host, hop.port)
        return await self._wire.exchange(request, hop, found, trace)


async def rebind(executor_of: type[HttpExecutor]) -> tuple[int, int, int]:
    """Connections of front and sink, and how often the resolver was asked."""
    async with serving(lambda _: Answer(), host=FRONT) as front:
        async with serving(lambda _: Answer(), host="127.0.0.1", port=front.port) as inner:
            resolver = Rebinding()
            executor = executor_of({}, PORTS, Doors(resolve=resolver))
            made = asking(f"http://front.example:{front.port}/", grant=GRANT)
            assert isinstance(await executor.perform(made, Heard()), Ok)
        return front.connections, inner.connections, resolver.calls


@pytest.mark.clause("X-24")
def test_a_name_that_moves_is_asked_once() -> None:
    """ND-17: the address that was judged is the address that is used; the control goes inside."""
    assert asyncio.run(rebind(HttpExecutor)) == (1, 0, 1)
    assert asyncio.run(rebind(AskedTwice)) == (0, 1, 2)


def test_the_second_hop_is_resolved_and_judged_anew() -> None:
    """ND-17: a redirect to the same name, which has moved inside meanwhile, is refused."""

    async def run() -> None:
        async with serving(lambda _: Answer(302, (("location", "/next"),)), host=FRONT) as front:
            made = asking(f"http://front.example:{front.port}/", grant=GRANT, redirects=5)
            got = await perform(made, resolve=Rebinding())
        assert (got.kind, got.code) == ("scope", "http.refused")
        assert front.connections == 1

    asyncio.run(run())


def test_every_hop_keeps_to_the_grant() -> None:
    """ND-17: hosts, paths, methods and size of body hold for redirects and references too."""
    # tidy: the grant, the targets and what becomes of each belong together
    grant = {
        "hosts": ["front.example"],
        "path_prefixes": ["/v1"],
        "methods": ["GET", "POST"],
        "max_body_bytes": 4,
        **GRANT,
    }
    targets = {
        "/v1/host": "http://other.example/v1/x",
        "/v1/path": "/v2/x",
        "/v1/scheme": "ftp://front.example/v1",
        "/v1/fine": "/v1/end#part",
    }

    def answer(asked: Asked) -> Answer:
        where = targets.get(asked.target)
        return Answer(307, (("location", where),)) if where else Answer(body=b"end")

    async def run() -> None:
        async with serving(answer, host=FRONT) as front:
            base = f"http://front.example:{front.port}"
            got = {
                target: await perform(
                    asking(base + target, redirects=1, grant=grant), resolve=by_table
                )
                for target in targets
            }
            large = await perform(asking(f"{base}/v1/x", "POST", body=b"12345", grant=grant))
        fine = got.pop("/v1/fine")
        assert (fine["body"], fine["url"]) == (b"end", f"{base}/v1/end")
        assert [(bad.kind, bad.code) for bad in (*got.values(), large)] == [
            ("scope", "http.refused")
        ] * 4

    asyncio.run(run())
