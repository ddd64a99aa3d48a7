"""Where `http.request` connects: no proxy, the judged address, TLS for the name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.executors.servers import Answer, serving, tls_client, tls_server
from tests.executors.test_http import asking, perform


def test_the_environment_names_no_proxy() -> None:
    """04 section 6: no proxy from the environment; a client that asks it would be led there."""

    async def run() -> None:
        async with serving(lambda _: Answer()) as proxy, serving(lambda _: Answer()) as site:
            url = f"http://127.0.0.1:{site.port}/"
            with proxies_in_the_environment(f"http://127.0.0.1:{proxy.port}"):
                got = await perform(asking(url))
                seen = proxy.connections
                async with httpx.AsyncClient(trust_env=True) as credulous:
                    await credulous.get(url)
        assert got["status"] == 200
        assert (seen, proxy.connections) == (0, 1), "control: the variable is one that counts"

    asyncio.run(run())


@contextmanager
def proxies_in_the_environment(url: str) -> Iterator[None]:
    names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "" if name.lower() == "no_proxy" else url for name in names})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def test_tls_is_for_the_name_whatever_the_address() -> None:
    """04 section 6: the pinned address must prove the name, to an authority that is trusted."""

    async def here(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async def run() -> None:
        async with serving(lambda _: Answer(body=b"safe"), tls=tls_server()) as site:
            trusting: dict[str, Any] = {"resolve": here, "tls": tls_client}
            good = await perform(asking(f"https://front.example:{site.port}/"), **trusting)
            other = await perform(asking(f"https://other.example:{site.port}/"), **trusting)
            untrusted = await perform(
                asking(f"https://front.example:{site.port}/"),
                resolve=here,
            )
        assert good["body"] == b"safe"
        assert [(bad.kind, bad.code, bad.retryable) for bad in (other, untrusted)] == [
            ("connection", "http.tls", False)
        ] * 2
        assert [asked.headers["host"] for asked in site.asked] == [f"front.example:{site.port}"]

    asyncio.run(run())


def test_the_next_address_is_tried_when_one_is_dead() -> None:
    """04 section 6: resolved once, and all that was found may be tried in order."""

    async def both(_host: str, _port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.1"]

    async def none(_host: str, _port: int) -> list[str]:
        return []

    async def run() -> None:
        async with serving(lambda _: Answer(body=b"me")) as site:
            url = f"http://front.example:{site.port}/"
            got = await perform(asking(url), resolve=both)
            nowhere = await perform(asking(url), resolve=none)
        assert got["body"] == b"me"
        assert nowhere.code == "http.unreachable"

    asyncio.run(run())


def test_a_name_nobody_knows_is_a_failed_connection() -> None:
    """04 section 5: resolving is part of the exchange."""

    async def unknown(host: str, _port: int) -> list[str]:
        raise OSError(f"no address for {host}")

    got = asyncio.run(perform(asking("http://nowhere.example/", "POST"), resolve=unknown))
    assert (got.kind, got.code, got.retryable) == ("connection", "http.unknown_host", True)
