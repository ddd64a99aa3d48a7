"""`llm.generate` with the stand-in: deterministic, bounded, streamed, and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BadDefinition, Rejected
from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok
from tallystick.executors.llm import make
from tallystick.executors.llm_local import prompt_hash
from tallystick.model.sys_definitions import type_of
from tallystick.values.schema import compile_schema
from tests.executors.jobs import Heard, MemoryBlobs, job

RECEIPT = compile_schema("r", type_of("sys/LlmGenerateReceipt@1"), type_of)
PARAMS = compile_schema("p", type_of("sys/LlmGenerateParams@1"), type_of)
PORTS = ExecutorPorts(Path(), None, lambda: 1_000)
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say  hello now"}]


def asking(**changes: Any) -> Job:
    """A job for one generation; `secrets`, `blobs` and `deadline_ns` are the job's own."""
    about = {n: changes.pop(n) for n in ("secrets", "blobs", "deadline_ns") if n in changes}
    params = {"provider": "local", "model": "m-1", "messages": HELLO, "max_tokens": 50, **changes}
    return job("sys/llm.generate@1", PARAMS.admit(params).value, **about)


async def generate(
    made: Job, settings: Mapping[str, Any] | None = None, ports: ExecutorPorts = PORTS
) -> tuple[Any, Heard]:
    """The outcome of a job and its progress; an Ok must fit the receipt schema."""
    executor, heard = make(settings or {}, ports), Heard()
    try:
        outcome = await executor.perform(made, heard)
        await executor.cancel(made)
    finally:
        await executor.close()
    if isinstance(outcome, Ok):
        assert outcome.usage == outcome.value["usage"]
        return RECEIPT.admit(outcome.value).value, heard
    assert isinstance(outcome, Failed)
    return outcome, heard


def local(made: Job, **settings: Any) -> tuple[Any, Heard]:
    """The outcome with the stand-in alone."""
    return asyncio.run(generate(made, {"providers": {"local": settings}}))


def test_the_stand_in_echoes_and_streams() -> None:
    """04 section 6, K-27: pieces come as progress, the receipt holds the whole and the usage."""
    blobs = MemoryBlobs()
    got, heard = local(asking(blobs=blobs), template="You said: {prompt}")
    assert got["text"] == "You said: Say  hello now"
    assert got["finish"] == "stop"
    assert heard.frames == [
        ("text", {"text": piece}) for piece in ("You", " said:", " Say", "  hello", " now")
    ]
    assert got["usage"] == {"calls": 1, "tokens": 10, "cents": 0}
    output = json.loads(blobs.held[got["output_ref"]])
    assert output == {"role": "assistant", "content": got["text"]}


def test_the_stand_in_gives_the_same_answer_each_time() -> None:
    """04 section 6: equal questions, equal receipts, whatever ran before."""
    assert local(asking())[0] == local(asking())[0]


def test_a_script_answers_one_prompt() -> None:
    """04 section 6: scripted by the hash of model and messages, else the template."""
    script = {prompt_hash("m-1", HELLO): "Forty two."}
    assert local(asking(), script=script)[0]["text"] == "Forty two."
    assert local(asking(model="m-2"), script=script)[0]["text"] == "Say  hello now"


def test_tokens_are_bounded() -> None:
    """06 section 2: `max_tokens` ends the answer, and it says so."""
    got, heard = local(asking(max_tokens=2))
    assert (got["text"], got["finish"], len(heard.frames)) == ("Say  hello", "length", 2)


def test_texts_are_found_in_blocks_too() -> None:
    """04 section 6: content may be a list of blocks; what is no text is skipped."""
    parts = [{"type": "text", "text": "one"}, {"type": "image"}, "two"]
    got, _ = local(asking(messages=[{"role": "user", "content": parts}]))
    assert got["text"] == "one\ntwo"


def test_a_long_text_is_a_blob() -> None:
    """04 section 6: 64 KiB inline; beyond it only the output's reference is there."""
    blobs = MemoryBlobs()
    made = asking(messages=[{"role": "user", "content": "x" * 65_537}], blobs=blobs)
    got, _ = local(made)
    assert got["text"] is None
    assert len(json.loads(blobs.held[got["output_ref"]])["content"]) == 65_537


def test_prices_become_cents_rounded_up() -> None:
    """06 section 4: usage settles a budget; a part of a cent is a cent."""
    got, _ = local(asking(), cents_per_million_in=300, cents_per_million_out=150_000)
    assert got["usage"] == {"calls": 1, "tokens": 8, "cents": 1}


@pytest.mark.parametrize(
    ("changes", "kind", "code"),
    [
        ({"provider": "none"}, "not_found", "llm.unknown_provider"),
        ({"messages": "hello"}, "schema", "llm.bad_messages"),
        ({"messages": ["hello"]}, "schema", "llm.bad_messages"),
        ({"deadline_ns": 1}, "timeout", "llm.timeout"),
    ],
)
def test_questions_that_are_not_asked(changes: dict[str, Any], kind: str, code: str) -> None:
    """04 section 5: an unknown provider, a shape nobody reads, a deadline that is over."""
    got, heard = local(asking(**changes))
    assert (got.kind, got.code) == (kind, code)
    assert heard.frames == []


WRONG: dict[str, Any] = {
    "no table": 5,
    "a misspelled key": {"kind": "openai", "apikey": "env:KEY"},
    "a size in words": {"kind": "openai", "max_bytes": "8MiB"},
    "a price in words": {"kind": "local", "cents_per_million_in": "3"},
    "a price below nothing": {"kind": "local", "cents_per_million_out": -1},
    "a template that is none": {"kind": "local", "template": 5},
    "a script that is none": {"kind": "local", "script": ["a"]},
    "a key that is no binding": {"kind": "openai", "api_key": "sk-canary-0123456789"},
}


@pytest.mark.clause("K-04")
@pytest.mark.parametrize("name", WRONG)
def test_a_provider_that_is_not_well_told_stops_the_start(name: str) -> None:
    """04 section 8: a trace of Python, a crash of each paid answer, or the key in the journal."""
    with pytest.raises(BadDefinition) as caught:
        make({"providers": {"mine": WRONG[name]}}, PORTS)
    why = caught.value
    assert (why.code, why.exit_code) == ("config.value", 2)
    assert str(why.where["path"]).startswith("executors.llm.providers.mine")
    assert "canary" not in f"{why} {why.where} {why.hint}"


def test_a_part_of_a_cent_is_a_price_too() -> None:
    """06 section 4: half a cent a million was counted as nothing; a budget is told the more."""
    got, _ = local(asking(), cents_per_million_in=0.5)
    assert got["usage"]["cents"] == 1


def test_a_provider_of_no_known_kind_stops_the_start() -> None:
    """04 section 8: settings that nobody can serve are refused, with the kinds there are."""
    with pytest.raises(Rejected) as caught:
        make({"providers": {"mine": {}}}, PORTS)
    assert caught.value.code == "llm.unknown_kind"
