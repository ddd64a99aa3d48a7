"""What passes between a node and its workers: whole messages, or an error that says so."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tallystick.node.wasm_wire import SAID_MAX, WireError, put, take
from tallystick.values import canon

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(name="pair")
def connected() -> Iterator[Pair]:
    """Both ends of a wire that waits for a moment only."""
    one, two = socket.socketpair()
    with one, two:
        one.settimeout(0.01)
        two.settimeout(0.01)
        yield one, two


class EnoughError(Exception):
    """Nobody waits any longer."""


def patience(times: int) -> list[None]:
    return [None] * times


def waiter(left: list[None]) -> None:
    if not left:
        raise EnoughError
    left.pop()


def never() -> None:
    raise AssertionError("nobody has to wait here")


def framed(document: bytes, body: bytes = b"", said: int | None = None) -> bytes:
    return struct.pack(">II", len(document) if said is None else said, len(body)) + document + body


def test_a_message_comes_whole(pair: Pair) -> None:
    """X-24: a document and its bytes arrive as they were sent, one message after the other."""
    one, two = pair
    put(one, {"do": "run"}, b"input", never)
    put(one, {"do": "code"}, b"", never)
    assert take(two, never) == ({"do": "run"}, b"input")
    assert take(two, never) == ({"do": "code"}, b"")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (framed(b"", said=SAID_MAX + 1), "too large"),
        (framed(canon.encode([1, 2])), "no map"),
        (framed(b"\xff\xff"), "does not begin"),
        (framed(canon.encode({"a": 1}), b"12")[:-1], "gone"),
    ],
)
def test_what_nobody_can_read_is_an_error_of_the_wire(pair: Pair, sent: bytes, said: str) -> None:
    """X-24: a worker that was taken over says too much, no map, no CBOR, or half; never more."""
    one, two = pair
    one.sendall(sent)
    one.shutdown(socket.SHUT_WR)
    with pytest.raises(WireError, match=said):
        take(two, never)


def test_who_waits_is_asked_again_and_again(pair: Pair) -> None:
    """X-24: silence, and a wire that is full, last as long as whoever waits allows."""
    one, two = pair
    left = patience(2)
    with pytest.raises(EnoughError):
        take(two, lambda: waiter(left))
    assert left == []
    left = patience(2)
    with pytest.raises(EnoughError):
        put(one, {}, bytes(1 << 24), lambda: waiter(left))
    assert left == []


def test_a_closed_end_is_an_error_of_the_wire(pair: Pair) -> None:
    """X-24: a process that died while it was told something is found out."""
    one, two = pair
    two.close()
    with pytest.raises(WireError):
        put(one, {"do": "run"}, b"x", never)
    one.close()
    with pytest.raises(WireError):
        take(one, never)
