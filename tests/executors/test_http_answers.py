"""The bodies of answers to `http.request`: encodings, and what a hostile server may not do."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from tallystick.executors.http_body import Body
from tests.executors.servers import Answer, serving
from tests.executors.test_http import asking, perform


def packed(body: bytes, window: int) -> bytes:
    engine = zlib.compressobj(wbits=window)
    return engine.compress(body) + engine.flush()


TEXT = b"some text, some text, " * 20
ENCODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]),
    "deflate": zlib.compress(TEXT),
    "Deflate": packed(TEXT, -15),
    "identity": TEXT,
    "br": TEXT,
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_encoded_bodies_are_decoded(encoding: str) -> None:
    """04 section 6: gzip and deflate in their usual spellings; unknown ones pass as they came."""

    async def run() -> None:
        answer = Answer(headers=(("content-encoding", encoding),), body=ENCODED[encoding])
        async with serving(lambda _: answer) as site:
            got = await perform(asking(f"http://127.0.0.1:{site.port}/"))
        assert got["body"] == TEXT
        assert ("content-encoding" in got["headers"]) == (encoding in ("identity", "br"))

    asyncio.run(run())


@pytest.mark.parametrize("window", [-zlib.MAX_WBITS, zlib.MAX_WBITS, 16 + zlib.MAX_WBITS])
def test_an_encoded_body_may_come_byte_by_byte(window: int) -> None:
    """04 section 6: deflate without its wrapper was refused when the first byte came alone."""
    body = Body("gzip" if window > zlib.MAX_WBITS else "deflate", 1000)
    for octet in packed(b"hello " * 9, window):
        body.feed(bytes([octet]))
    assert body.end() == b"hello " * 9


def in_gzip(body: bytes) -> Answer:
    return Answer(headers=(("content-encoding", "gzip"),), body=body)


LARGE = ("limit", "http.too_large")
BROKEN = ("server_error", "http.bad_encoding")
CUT = ("connection", "http.cut")
NO_HTTP = ("connection", "http.protocol")
HOSTILE: dict[str, tuple[Answer, tuple[str, str]]] = {
    "bomb": (in_gzip(gzip.compress(bytes(8 * 2**20))), LARGE),
    "bomb in members": (in_gzip(gzip.compress(bytes(60_000)) * 9), LARGE),
    "endless": (Answer(body=bytes(2**20 + 1)), LARGE),
    "endless, decoded": (in_gzip(gzip.compress(bytes(range(256)) * 5000)), LARGE),
    "no gzip": (in_gzip(b"plain"), BROKEN),
    "half a gzip": (in_gzip(ENCODED["gzip"][:-9]), BROKEN),
    "cut": (Answer(headers=(("content-length", "9"),), body=b"abc", cut=True), CUT),
    "silence": (Answer(raw=b"", cut=True), CUT),
    "no http": (Answer(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), NO_HTTP),
    "endless head": (Answer(raw=b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000), NO_HTTP),
    "other protocol": (Answer(raw=b"HTTP/1.1 101 X\r\nupgrade: x\r\n\r\n"), NO_HTTP),
    "only interim": (Answer(raw=b"HTTP/1.1 103 Hints\r\n\r\n" * 20), NO_HTTP),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_are_bounded(name: str) -> None:
    """04 section 6: size, ratio and form of an answer are limited, each with its code."""
    answer, expected = HOSTILE[name]

    async def run() -> None:
        async with serving(lambda _: answer) as site:
            got = await perform(asking(f"http://127.0.0.1:{site.port}/"), {"max_bytes": 2**20})
        assert (got.kind, got.code) == expected
        assert got.retryable == (got.kind == "connection")
        assert len(site.asked) == 1

    asyncio.run(run())
