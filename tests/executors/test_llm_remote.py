"""`llm.generate` over the wire: real servers on loopback speak each dialect, well and badly."""

# tidy: every way in which a service speaks, well and badly.
from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts
from tallystick.executors.secrets import Bindings
from tests.executors.jobs import Heard, MemoryBlobs, secret
from tests.executors.servers import Answer, Asked, serving
from tests.executors.test_llm import HELLO, PORTS, asking, generate

KEY = "sk-canary-0123456789"

OPENAI = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "Hel"}}]},
    {"choices": [{"delta": {"content": "lo é"}}], "usage": None},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3}},
]
ANTHROPIC = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 11, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo é"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
STREAMS = {"openai": OPENAI, "anthropic": ANTHROPIC}


def sse(events: list[Any], end: str = "data: [DONE]\n\n") -> Answer:
    """An event stream, with comments and names as services send them."""
    lines = [f": keep\nevent: {e.get('type', 'x')}\ndata: {json.dumps(e)}\r\n\n" for e in events]
    body = "".join(lines) + end
    return Answer(headers=(("content-type", "text/event-stream"),), body=body.encode())


async def ask(
    answer: Answer, kind: str = "openai", ports: ExecutorPorts = PORTS, **changes: Any
) -> tuple[Any, Heard, list[Asked]]:
    """One question to a server that gives one answer."""
    more = changes.pop("settings", {})
    timeout_s = changes.pop("timeout_s", 30)
    async with serving(lambda _: answer) as site:
        provider = {"kind": kind, "url": f"http://127.0.0.1:{site.port}/v1/", **more}
        settings = {"providers": {"far": provider}, "timeout_s": timeout_s}
        got, heard = await generate(asking(provider="far", **changes), settings, ports)
    return got, heard, site.asked


@pytest.mark.clause("K-27")
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_becomes_progress_and_one_reply(kind: str) -> None:
    """04 section 6: tokens stream as progress; text, finish and usage are in the receipt."""
    blobs = MemoryBlobs()
    options = {"temperature": 0, "model": "other", "stream": False}
    run = ask(sse(STREAMS[kind]), kind, options=options, blobs=blobs, api_key={"literal": KEY})
    got, heard, (asked,) = asyncio.run(run)
    assert (got["text"], got["finish"]) == ("Hello é", "stop")
    assert got["usage"] == {"calls": 1, "tokens": 14, "cents": 0}
    assert heard.frames == [("text", {"text": "Hel"}), ("text", {"text": "lo é"})]
    body = json.loads(asked.body)
    # Options add to a request; they do not change what was admitted.
    assert (body["model"], body["stream"], body["temperature"]) == ("m-1", True, 0)
    assert body["max_tokens"] == 50
    if kind == "openai":
        assert (asked.target, asked.headers["authorization"]) == (
            "/v1/chat/completions",
            f"Bearer {KEY}",
        )
        assert body["messages"] == HELLO
    else:
        assert (asked.target, asked.headers["x-api-key"]) == ("/v1/messages", KEY)
        assert (body["system"], body["messages"]) == ("Be brief.", HELLO[1:])


@pytest.mark.parametrize("kind", STREAMS)
def test_tool_calls_are_put_together(kind: str) -> None:
    """04 section 6: output is data: calls come in pieces and are handed on whole."""
    # tidy: both streams and what becomes of each, side by side
    pieces = [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}]
    more = [{"index": 0, "function": {"arguments": ":1}"}}]
    streams: dict[str, list[Any]] = {
        "openai": [
            {"choices": [{"delta": {"tool_calls": pieces}}]},
            {"choices": [{"delta": {"tool_calls": more}, "finish_reason": "tool_calls"}]},
        ],
        "anthropic": [
            ANTHROPIC[0],
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": delta}
                for delta in (
                    {"type": "input_json_delta", "partial_json": '{"a"'},
                    {"type": "input_json_delta", "partial_json": ":1}"},
                    {"type": "a_later_delta"},
                )
            ),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 3},
            },
        ],
    }
    blobs = MemoryBlobs()
    got, _, _ = asyncio.run(ask(sse(streams[kind], ""), kind, blobs=blobs))
    assert (got["text"], got["finish"]) == ("", "tool_calls")
    output = json.loads(blobs.held[got["output_ref"]])
    whole = {
        "openai": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "f", "arguments": '{"a":1}'}],
        },
        "anthropic": {
            "role": "assistant",
            "content": [{"type": "tool_use", "partial_json": '{"a":1}'}],
        },
    }
    assert output == whole[kind]


STATUSES = [
    (401, "auth", False),
    (403, "auth", False),
    (404, "not_found", False),
    (408, "timeout", True),
    (422, "client_error", False),
    (429, "rate_limit", True),
    (500, "server_error", True),
    (529, "server_error", True),
    (302, "client_error", False),
]


@pytest.mark.parametrize(("status", "kind", "retryable"), STATUSES)
def test_failures_are_told_by_whose_fault(status: int, kind: str, retryable: bool) -> None:
    """04 section 5: the status of the service decides kind and retry; Retry-After is kept."""
    headers = (("retry-after", "7"), ("location", "http://127.0.0.1:9/"))
    answer = Answer(status, headers, b'{"error": "no"}' + b" " * 20_000)
    got, heard, asked = asyncio.run(ask(answer))
    assert (got.kind, got.code, got.retryable) == (kind, f"llm.status_{status}", retryable)
    assert got.retry_after_ns == 7 * 10**9
    assert len(got.message) < 600
    assert (heard.frames, len(asked)) == ([], 1)


LATER = Answer(503, (("retry-after", "Sun, 15 Nov 2026 00:00:00 GMT"),))
BAD = {
    "a date": (LATER, "server_error", "llm.status_503"),
    "cut before the end": (sse(OPENAI[:3]), "connection", "llm.cut"),
    "cut in the middle": (
        Answer(headers=(("content-length", "900"),), body=sse(OPENAI[:3]).body, cut=True),
        "connection",
        "llm.cut",
    ),
    "no json": (sse([], "data: {nonsense\n\n"), "server_error", "llm.bad_stream"),
    "no object": (sse([], "data: 7\n\n"), "server_error", "llm.stream_error"),
    "an error inside": (
        sse([*OPENAI[:2], {"error": {"message": "overloaded"}}]),
        "server_error",
        "llm.stream_error",
    ),
    "other shapes": (sse([{"choices": [7]}]), "server_error", "llm.bad_stream"),
    "endless": (sse([{"choices": [], "x": "y" * 5_000}] * 3), "limit", "llm.too_large"),
    "no http": (Answer(raw=b"SSH-2.0\r\n\r\n"), "connection", "llm.unreachable"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_streams_are_failures(name: str) -> None:
    """04 section 5: a stream that breaks off, lies or never ends is never a short answer."""
    answer, kind, code = BAD[name]
    got, _, _ = asyncio.run(ask(answer, settings={"max_bytes": 10_000}))
    assert (got.kind, got.code) == (kind, code)
    assert got.retry_after_ns is None


def test_a_block_that_was_never_opened_is_a_bad_stream() -> None:
    """04 section 5: what a service sends is not trusted, down to its indexes."""
    got, _, _ = asyncio.run(ask(sse(ANTHROPIC[3:]), "anthropic"))
    assert (got.kind, got.code) == ("server_error", "llm.bad_stream")


def test_nobody_there_and_nobody_answering() -> None:
    """X-10: a refused connection may be tried again; silence ends at the limit."""

    async def never(_: Asked) -> Answer:
        await asyncio.sleep(3_600)
        raise AssertionError("nobody waits so long")

    async def run() -> tuple[Any, Any]:
        async with serving(never) as site:
            settings: dict[str, Any] = {
                "providers": {"openai": {"url": f"http://127.0.0.1:{site.port}"}},
                "timeout_s": 0.2,
            }
            silent, _ = await generate(asking(provider="openai"), settings)
        gone, _ = await generate(asking(provider="openai"), {**settings, "timeout_s": 30})
        return silent, gone

    silent, gone = asyncio.run(run())
    assert (silent.kind, silent.code) == ("timeout", "llm.timeout")
    assert (gone.kind, gone.code, gone.retryable) == ("connection", "llm.unreachable", True)


# ---- keys -----------------------------------------------------------------------------------


def with_keys(folder: Path, environ: Mapping[str, str]) -> ExecutorPorts:
    """The ports of a node that has these variables."""
    return ExecutorPorts(folder, Bindings(folder, environ), lambda: 1_000)


def leaky(asked: Asked) -> Answer:
    """A service that repeats the key it was given, cut in two and in an error."""
    key = asked.headers["authorization"].removeprefix("Bearer ")
    if b"fail" in asked.body:
        return Answer(401, (), f'{{"error": "bad key {key}"}}'.encode())
    said = [f"your key is {key[:7]}", f"{key[7:]}, keep it"]
    deltas = [{"choices": [{"delta": {"content": text}}]} for text in said]
    return sse([*deltas, {"choices": [{"delta": {}, "finish_reason": "stop"}]}])


@pytest.mark.clause("K-04")
def test_the_key_of_the_settings_is_used_and_never_shown(tmp_path: Path) -> None:
    """ND-19: sent to the service, absent from text, output, progress and error, though echoed."""

    async def run() -> tuple[Any, Any, str]:
        blobs = MemoryBlobs()
        async with serving(leaky) as site:
            url = f"http://127.0.0.1:{site.port}"
            settings = {"providers": {"openai": {"url": url, "api_key": "env:THE_KEY"}}}
            ports = with_keys(tmp_path, {"THE_KEY": KEY})
            said, heard = await generate(asking(provider="openai", blobs=blobs), settings, ports)
            failing = asking(provider="openai", messages=[{"role": "user", "content": "fail"}])
            failed, _ = await generate(failing, settings, ports)
        assert [asked.headers["authorization"] for asked in site.asked] == [f"Bearer {KEY}"] * 2
        return said, failed, repr((said, failed, heard.frames, blobs.held))

    said, failed, everything = asyncio.run(run())
    assert said["text"] == "your key is «secret:llm.openai», keep it"
    assert "«secret:llm.openai»" in failed.message
    assert KEY not in everything
    assert KEY[7:] not in everything


def test_a_key_of_the_job_goes_before_that_of_the_settings(tmp_path: Path) -> None:
    """06 section 5: a secret of the workflow's own is used where it names one."""

    async def run() -> list[Asked]:
        async with serving(lambda _: sse(OPENAI)) as site:
            settings = {
                "providers": {
                    "openai": {"url": f"http://127.0.0.1:{site.port}", "api_key": "env:THE_KEY"}
                }
            }
            made = asking(provider="openai", api_key=secret("k"), secrets={"/api_key": "own-key-1"})
            await generate(made, settings, with_keys(tmp_path, {"THE_KEY": KEY}))
        return site.asked

    (asked,) = asyncio.run(run())
    assert asked.headers["authorization"] == "Bearer own-key-1"


def test_a_key_that_is_not_bound_settles_before_any_contact(tmp_path: Path) -> None:
    """06 section 5: the failure names the binding, and the service hears nothing."""
    settings = {"api_key": "env:NONE"}
    got, _, asked = asyncio.run(ask(sse(OPENAI), ports=with_keys(tmp_path, {}), settings=settings))
    assert (got.kind, got.code) == ("auth", "secret.unbound")
    assert asked == []


def halves(*pieces: str) -> Answer:
    events: list[Any] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return sse([*events, {"choices": [{"delta": {}, "finish_reason": "stop"}]}])


def test_a_letter_may_come_in_two_halves() -> None:
    """K-27: a service that counts in 16 bits cuts an emoji in two; alone, a half is a mark."""
    blobs = MemoryBlobs()
    got, heard, _ = asyncio.run(ask(halves("so \ud83d", "\ude00 far"), blobs=blobs))
    assert got["text"] == "so \N{GRINNING FACE} far"
    assert "".join(told["text"] for _, told in heard.frames) == got["text"]
    assert json.loads(blobs.held[got["output_ref"]])["content"] == got["text"]
    cut, heard, _ = asyncio.run(ask(halves("so \ud83d")))
    assert cut["text"] == "so \N{REPLACEMENT CHARACTER}"
    assert "".join(told["text"] for _, told in heard.frames) == cut["text"]


ODD_STREAMS = {
    "packed, but not so": Answer(headers=(("content-encoding", "gzip"),), body=b"data: {}\n\n"),
    "nested without end": sse([], end=f"data: {'[' * 100_000}\n\n"),
    "without an end to count": sse(OPENAI, end='data: {"usage": {"prompt_tokens": 1e999}}\n\n'),
}


@pytest.mark.parametrize("name", ODD_STREAMS)
def test_a_stream_that_nobody_can_read_is_a_failure_of_the_service(name: str) -> None:
    """F9: encoding, depth and numbers are the service's own choice, and no crash of ours."""
    got, _, _ = asyncio.run(ask(ODD_STREAMS[name]))
    assert got.code in ("llm.cut", "llm.bad_stream")


@pytest.mark.invariant("I41")
def test_a_refusal_that_ends_in_the_key_ends_before_it(tmp_path: Path) -> None:
    """06 section 5: of what a service answers the beginning is told, and no half of the key."""
    ports = ExecutorPorts(tmp_path, Bindings(tmp_path, {"MINE": KEY}), lambda: 0)
    answer = Answer(401, body=b"x" * 490 + KEY.encode())
    got, _, _ = asyncio.run(ask(answer, ports=ports, settings={"api_key": "env:MINE"}))
    assert got.code == "llm.status_401"
    assert "x" * 490 in got.message
    assert KEY[:6] not in got.message
