"""Scrubbing: no spelling of a secret that 06 section 5 names gets through, whole or in pieces."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.executors.base import Failed, Ok
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber, StreamScrubber
from tests.executors.jobs import MemoryBlobs, job, secret

CANARY = 'sk-Canary_9f/Z+é"\\ q€😀x'
PLAIN = "sk-0123456789-abcdefghij"

SPELLINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda v: v,
    "json": json.dumps,
    "json-unicode": lambda v: json.dumps(v, ensure_ascii=False),
    "json-slash": lambda v: json.dumps(v).replace("/", "\\/"),
    "json-all": lambda v: "".join(
        f"\\u{unit:04X}" for unit in memoryview(v.encode("utf-16-le")).cast("H")
    ),
    "hex": lambda v: v.encode().hex(),
    "hex-upper": lambda v: v.encode().hex().upper(),
    "url": lambda v: quote(v, safe=""),
    "url-path": quote,
    "url-form": quote_plus,
    "url-lower": lambda v: quote(v, safe="").replace("%C3%A9", "%c3%a9"),
    "url-all": lambda v: "".join(f"%{octet:02X}" for octet in v.encode()),
    "base64-0": lambda v: b64encode(v.encode()).decode(),
    "base64-1": lambda v: b64encode(b"a" + v.encode() + b"bc").decode(),
    "base64-2": lambda v: b64encode(b"ab" + v.encode() + b"c").decode(),
    "base64-basic": lambda v: b64encode(b"user:" + v.encode()).decode(),
    "base64-url-0": lambda v: urlsafe_b64encode(v.encode()).decode(),
    "base64-url-1": lambda v: urlsafe_b64encode(b"?" + v.encode()).decode(),
}


def visible(text: str, value: str) -> bool:
    """True when some writing of the value, or most of it, can be read off the text."""
    spelled = [make(value).strip('"') for make in SPELLINGS.values()]
    # The ends of a base64 text hold bits of the neighbours; its middle is the value's own.
    return any(part and part[3:-3] in text for part in spelled)


@pytest.mark.clause("K-04")
@pytest.mark.parametrize("value", [CANARY, PLAIN], ids=["hard", "plain"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_replaced(spelling: str, value: str) -> None:
    """AG-15, ND-19: each encoding of 06 section 5, in a text and in bytes, becomes the marker."""
    scrubber = Scrubber({"llm/key@1": value})
    text = f"before {SPELLINGS[spelling](value)} after"
    assert visible(text, value), "control: the canary is there before"
    for clean in (scrubber.text(text), scrubber.octets(text.encode()).decode()):
        assert "«secret:llm/key@1»" in clean
        assert not visible(clean, value)
        assert clean.startswith("before ")
        assert clean.endswith(" after")
    assert scrubber.redacted == {"llm/key@1": 2}


def test_other_text_stays_as_it_is() -> None:
    """06 section 5: what holds no secret is not touched, bytes that are no text included."""
    scrubber = Scrubber({"a@1": PLAIN})
    assert scrubber.text(PLAIN[:-1]) == PLAIN[:-1]
    body = bytes(range(256))
    assert scrubber.octets(body) is body
    assert scrubber.value({"n": 1, "b": [True, None, 1.5]}) == {"n": 1, "b": [True, None, 1.5]}
    assert not scrubber.redacted
    assert Scrubber({}).text(PLAIN) == PLAIN
    assert Scrubber({}).octets(b"x") == b"x"


def test_values_are_scrubbed_at_any_depth() -> None:
    """ND-19: texts, bytes, lists and keys of maps; errors with code and message."""
    scrubber = Scrubber.of(
        job("e/e@1", {"h": {"x": secret("k", 2)}}, secrets={"/h/x": PLAIN}),
        {"own": "own-key-12345"},
    )
    dirty = {"a": [f"x{PLAIN}", {PLAIN: PLAIN.encode()}], "b": (bytearray(b"own-key-12345"),)}
    mark = "«secret:k@2»"
    assert scrubber.outcome(Ok(dirty)) == Ok(
        {"a": [f"x{mark}", {mark: mark.encode()}], "b": ("«secret:own»".encode(),)}
    )
    failed = scrubber.outcome(Failed("auth", "http.x", f"bad key {PLAIN}", retryable=True))
    assert failed == Failed("auth", "http.x", f"bad key {mark}", retryable=True)


def test_a_reference_in_a_list_is_named() -> None:
    """06 section 5: the marker names the secret wherever its reference stands."""
    made = job("e/e@1", {"l": [None, secret("k")]}, secrets={"/l/1": PLAIN})
    assert Scrubber.of(made).text(PLAIN) == "«secret:k@1»"


def test_a_secret_inside_another_goes_whole() -> None:
    """06 section 5: the longer value is looked for first, so no rest of it remains."""
    scrubber = Scrubber({"short@1": "abcdef", "long@1": "xxabcdefyy"})
    assert scrubber.text("xxabcdefyy abcdef") == "«secret:long@1» «secret:short@1»"


def test_blobs_are_scrubbed_before_they_are_hashed() -> None:
    """ND-19: a large answer leaves as a blob, and the blob is clean too."""
    store = MemoryBlobs()
    blobs = ScrubbedBlobs(store, Scrubber({"a@1": PLAIN}))
    name = blobs.put(f"x{PLAIN}".encode())
    assert blobs.get(name) == store.held[name] == "x«secret:a@1»".encode()


def fed(value: str, pieces: list[Any], name: str = "a@1") -> list[Any]:
    """What leaves a stream that is fed these pieces."""
    stream = StreamScrubber(Scrubber({name: value}))
    out = [body for piece in pieces for _, body in stream.feed("token", piece)]
    return out + [body for _, body in stream.rest()]


@pytest.mark.clause("K-04", "K-27")
@given(st.sampled_from(sorted(SPELLINGS)), st.data(), st.booleans())
def test_a_secret_cut_by_a_stream_is_found(
    spelling: str, data: st.DataObject, octets: bool
) -> None:
    """ND-19: cut into frames in any way, no spelling gets through, and the rest is unchanged."""
    written = SPELLINGS[spelling](CANARY).strip('"')
    text = f"The quick skunk {written} sat."
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    bounds = [0, *cuts, len(text)]
    parts = [text[a:b] for a, b in pairwise(bounds)]
    pieces: list[Any] = [{"n": 1, "text": p.encode() if octets else p} for p in parts]
    out = fed(CANARY, pieces)
    assert len(out) == len(pieces)
    join: Any = b"" if octets else ""
    whole = join.join(piece["text"] for piece in out)
    clean = whole.decode() if octets else whole
    assert clean.startswith("The quick skunk ")
    assert clean.endswith(" sat.")
    assert clean.count("«secret:a@1»") == 1
    assert not visible(clean, CANARY)


def test_scrubbing_frame_by_frame_would_not_do() -> None:
    """ND-19 control: the same two frames, each scrubbed alone, show the canary when joined."""
    scrubber = Scrubber({"a@1": PLAIN})
    halves = [PLAIN[:9], PLAIN[9:]]
    assert "".join(map(scrubber.text, halves)) == PLAIN
    assert fed(PLAIN, halves) == ["«secret:a@1»", ""]


def test_frames_wait_only_while_they_must() -> None:
    """K-27: a frame that cannot be the start of a secret leaves at once, in order, unchanged."""
    stream = StreamScrubber(Scrubber({"a@1": PLAIN}))
    assert stream.feed("token", {"t": "hello"}) == [("token", {"t": "hello"})]
    assert stream.feed("token", {"t": "as"}) == []
    assert stream.feed("phase", {"t": "done"}) == []
    assert stream.feed("token", {"t": "tute"}) == [
        ("token", {"t": "as"}),
        ("phase", {"t": "done"}),
        ("token", {"t": "tute"}),
    ]
    assert stream.feed("token", [{"u": 1}, PLAIN[:5]]) == []
    assert stream.rest() == [("token", [{"u": 1}, PLAIN[:5]])]
    assert stream.rest() == []
    assert StreamScrubber(Scrubber({})).feed("a", "b") == [("a", "b")]


def test_places_that_change_their_kind_do_not_disturb() -> None:
    """K-27: text, then bytes, then nothing at the same place; each is judged with its like."""
    head, tail = PLAIN[:6], PLAIN[6:]
    assert fed(PLAIN, [head, tail.encode(), {"x": 1}, tail]) == [
        "«secret:a@1»",
        tail.encode(),
        {"x": 1},
        "",
    ]
