"""Bodies: exact content types, JSON and CBOR read exactly, bombs refused before they go off."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.api import models, wire
from tallystick.errors import Rejected, SchemaMismatch
from tallystick.values import canon
from tests.api.plain import listening

TYPES = [
    ("application/json", 200),
    ("application/json; charset=utf-8", 200),
    ("APPLICATION/JSON", 200),
    ("application/json;charset=utf-8", 200),
    ("application/json;charset=UTF-8", 200),
    ('application/json; charset="utf-8"', 200),
    ("application/json;charset=utf-16", 415),
    ("application/json; charset=utf-8; x=y", 415),
    ("application/cbor; charset=utf-8", 415),
    ("application/json; charset=latin-1", 415),
    ("application/json, text/plain", 415),
    ("text/plain", 415),
    ("text/json", 415),
    ("application/x-www-form-urlencoded", 415),
    ("multipart/form-data; boundary=x", 415),
    ("application/octet-stream", 415),
    ("application/cbor", 422),
    ("", 415),
]


def test_content_types_are_exact(tmp_path: Path) -> None:
    """ND-20, AT-20: what a form or a no-cors page can send is 415; only our two types are read."""

    async def run() -> None:
        async with listening(tmp_path) as line:
            for kind, wanted in TYPES:
                status, _, _ = await line.post(b'{"a": 1}', f"Content-Type: {kind}")
                assert (kind, status) == (kind, wanted)
            json_type = "Content-Type: application/json"
            status, _, _ = await line.post(b"{}", json_type, "Content-Encoding: gzip")
            assert status == 415

    asyncio.run(run())


def test_cbor_in_and_out(tmp_path: Path) -> None:
    """04 section 10: a canonical CBOR body is read, and answered in CBOR when that is wanted."""

    async def run() -> None:
        async with listening(tmp_path) as line:
            body = canon.encode({"a": b"\x00\x01", "b": [1, None]})
            status, headers, got = await line.post(
                body, "Content-Type: application/cbor", "Accept: application/cbor"
            )
            assert (status, headers["content-type"]) == (200, "application/cbor")
            assert canon.decode(got) == {"got": {"a": b"\x00\x01", "b": [1, None]}}
            kind = "Content-Type: Application/CBOR"  # the case of a media type means nothing
            assert (await line.post(body, kind))[0] == 200

    asyncio.run(run())


DEEP = 100_000
BOMBS = [
    (b"[" * DEEP + b"]" * DEEP, "value.too_deep"),
    (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "value.too_deep"),
    (b'"' + b'\\"[' * DEEP + b'"', None),
    (b"9" * 100_000, "value.out_of_range"),
    (b"1e999999999", None),
    (b'{"a":1,"a":2}', "value.duplicate_key"),
    (b'{"a":1,"\\u0061":2}', "value.duplicate_key"),
    (b"NaN", "value.not_finite"),
    (b"-Infinity", "value.not_finite"),
    (b"{", "value.bad_format"),
    (b"{} {}", "value.bad_format"),
    (b"\xff\xfe", "value.bad_format"),
    (b'"\xed\xa0\x80"', "value.bad_format"),
    (b"'a'", "value.bad_format"),
    (b"\xef\xbb\xbf{}", "value.bad_format"),
]
CBOR_BOMBS = [
    b"",
    b"\xa0",
    canon.PREFIX,
    canon.PREFIX + b"\x9b\x00\x00\x00\x00\xff\xff\xff\xff",
    canon.PREFIX + b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",
    canon.PREFIX + b"\xbb\x00\x00\x00\x01\x00\x00\x00\x00",
    canon.PREFIX + b"\x81" * 60_000,
    canon.PREFIX + b"\x9f\xff",
    canon.PREFIX + b"\x18\x01",
    canon.PREFIX + b"\xa2\x61a\x01\x61a\x02",
    canon.PREFIX + b"\xc2\x58\xff",
    canon.PREFIX + b"\x01\x01",
]


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(("body", "wanted"), BOMBS, ids=range(len(BOMBS)))
def test_json_bombs(body: bytes, wanted: str | None) -> None:
    """AT-21: hostile JSON is refused with a code, or read for what it is, in little memory."""
    assert _peak(lambda: _refusal(body, wire.JSON, wanted)) < 20_000_000


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("body", CBOR_BOMBS, ids=range(len(CBOR_BOMBS)))
def test_cbor_bombs(body: bytes) -> None:
    """AT-21: CBOR that promises what it does not hold, or is not canonical, is refused."""
    assert _peak(lambda: _refusal(body, wire.CBOR, "cbor.")) < 20_000_000


def _refusal(body: bytes, kind: bytes, wanted: str | None) -> None:
    if wanted is None:
        wire.document_of(body, kind)
        return
    with pytest.raises(Rejected) as refused:
        wire.document_of(body, kind)
    assert refused.value.code.startswith(wanted)
    assert 400 <= refused.value.status < 500
    assert len(json.dumps(wire.problem_of(refused.value))) < 4096


def _peak(act: Any) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bombs_over_the_wire_leave_the_node_well(tmp_path: Path) -> None:
    """AT-21: every bomb is a 4xx over a socket, and the next request is served."""

    async def run() -> None:
        async with listening(tmp_path, max_body=1024 * 1024) as line:
            for body, wanted in BOMBS:
                status, headers, got = await line.post(body)
                if wanted is None:
                    continue
                assert 400 <= status < 500
                assert headers["content-type"] == "application/problem+json"
                assert json.loads(got)["code"].startswith(wanted)
            assert (await line.post(b"{}"))[0] == 200

    asyncio.run(run())


MISFITS = [
    ({"schema": "a"}, ""),
    ({"schema": 1, "value": 2}, "/schema"),
    ({"schema": "a", "value": 1, "tags": ["a", 2]}, "/tags/1"),
    ({"schema": "a", "value": 1, "vlaue": 2}, ""),
    ({"schema": "a", "value": 1, "idempotency_key": ""}, "/idempotency_key"),
    ([], ""),
    ("x", ""),
]


@pytest.mark.parametrize(("value", "path"), MISFITS)
def test_a_misfit_names_its_path(value: Any, path: str) -> None:
    """04 section 10: unknown and misfitting fields are refused, with a pointer to the field."""
    with pytest.raises(SchemaMismatch) as refused:
        wire.convert(value, models.EventBody)
    assert refused.value.errors[0]["path"] == path


def test_every_body_is_closed() -> None:
    """04 section 10: no body takes a field that it does not know."""
    shapes = [
        each
        for each in vars(models).values()
        if isinstance(each, type) and issubclass(each, models.Body) and each is not models.Body
    ]
    assert len(shapes) > 10
    for shape in shapes:
        assert msgspec.structs.fields(shape)
        with pytest.raises(SchemaMismatch):
            wire.convert({"no_such_field": 1}, shape)


@pytest.mark.parametrize("key", [b"", b"x" * 129, b"a\x00", b"\xc3\xa9", b"a\nb", b"\x7f"])
def test_an_idempotency_key_is_printable(key: bytes) -> None:
    """ND-11: 1 to 128 printable characters, else 400."""
    with pytest.raises(Rejected) as refused:
        wire.idem_key_of(key)
    assert refused.value.code == "ingress.bad_key"
    assert wire.idem_key_of(b"order 7/a~") == "order 7/a~"
