"""The executors without a wire: `blob`, `telemetry` and `echo`."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors import blob, echo, telemetry
from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok
from tallystick.executors.telemetry import FILE_BYTES_MAX
from tallystick.model.sys_definitions import type_of
from tallystick.values import canon
from tallystick.values.schema import compile_schema
from tests.executors.jobs import Heard, MemoryBlobs, job, secret

PORTS = ExecutorPorts(Path(), None, lambda: 1_000)


def schema(name: str) -> Any:
    """One of our own schemas, compiled."""
    return compile_schema(name, type_of(name), type_of)


def blob_job(verb: str, params: dict[str, Any], **about: Any) -> Job:
    """A job for `blob.put` or `blob.get`."""
    shape = schema(f"sys/Blob{verb.capitalize()}Params@1")
    return job(f"sys/blob.{verb}@1", shape.admit(params).value, **about)


def performed(made: Job, executor: Any = None) -> Any:
    """The outcome of a job with the executor of blobs, or another one."""
    serving = executor or blob.make({}, PORTS)

    async def run() -> Any:
        outcome = await serving.perform(made, Heard())
        await serving.cancel(made)
        await serving.close()
        return outcome

    return asyncio.run(run())


def test_a_blob_comes_back_by_its_hash() -> None:
    """04 section 6: put gives the hash and an edge that names what it refers to; get the bytes."""
    blobs = MemoryBlobs()
    other = blobs.put(b"other")
    put = performed(blob_job("put", {"bytes": b"body", "refs": [other]}, blobs=blobs))
    receipt = schema("sys/BlobPutReceipt@1").admit(put.value).value
    ref = canon.hash_of(b"body")
    assert (receipt["blob_ref"], receipt["size"], blobs.held[ref]) == (ref, 4, b"body")
    edge = canon.decode(blobs.held[receipt["edge_ref"]])
    assert edge == {"$type": "blob_edge@1", "blob": ref, "refs": [other]}
    get = performed(blob_job("get", {"blob_ref": ref}, blobs=blobs))
    schema("sys/BlobGetReceipt@1").admit(get.value)
    assert get == Ok({"blob_ref": ref, "size": 4, "bytes": b"body"})


@pytest.mark.clause("F-08")
def test_a_second_attempt_changes_nothing() -> None:
    """ND-15 for blobs: the same put again gives the same receipt and no other blob."""
    blobs = MemoryBlobs()
    first = performed(blob_job("put", {"bytes": b"body"}, blobs=blobs))
    before = dict(blobs.held)
    assert performed(blob_job("put", {"bytes": b"body"}, blobs=blobs)) == first
    assert blobs.held == before


@pytest.mark.parametrize(
    ("verb", "params", "kind", "code"),
    [
        ("get", {"blob_ref": "sha256:" + "0" * 64}, "not_found", "blob.unknown"),
        ("put", {"bytes": b"a", "refs": ["sha256:" + "0" * 64]}, "not_found", "blob.unknown"),
        ("put", {"bytes": b"a", "blob_ref": canon.hash_of(b"b")}, "conflict", "blob.mismatch"),
        ("put", {"bytes": b"abcde"}, "limit", "blob.too_large"),
        ("get", {"blob_ref": canon.hash_of(b"stored")}, "limit", "blob.too_large"),
    ],
)
def test_blobs_that_are_refused(verb: str, params: dict[str, Any], kind: str, code: str) -> None:
    """04 section 6: another world's hash, other bytes than said, more than the grant allows."""
    blobs = MemoryBlobs()
    blobs.put(b"stored")
    got = performed(blob_job(verb, params, blobs=blobs, grant={"max_bytes": 4}))
    assert isinstance(got, Failed)
    assert (got.kind, got.code) == (kind, code)
    assert len(blobs.held) == 1


def emitting(name: str) -> Job:
    """A job for `telemetry.emit`."""
    params = schema("sys/TelemetryEmitParams@1").admit(
        {"name": name, "value": "1.5", "attrs": {"k": "é"}}
    )
    return job("sys/telemetry.emit@1", params.value)


def test_telemetry_is_a_line_of_json(tmp_path: Path) -> None:
    """04 section 6: one line per emission, whole, with what tells a repeat from a second one."""
    executor = telemetry.make({}, ExecutorPorts(tmp_path, None, lambda: 7))
    for name in ("a", "b"):
        got = performed(emitting(name), executor)
        schema("sys/TelemetryEmitReceipt@1").admit(got.value)
    path = tmp_path / "logs" / "telemetry.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["name"] for line in lines] == ["a", "b"]
    assert lines[0] == {
        "ts_ns": 7,
        "world": emitting("a").world,
        "workflow": "com.acme/order@1",
        "intent": "01" * 32,
        "attempt": 1,
        "name": "a",
        "value": "1.5",
        "attrs": {"k": "é"},
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_telemetry_is_bounded_on_disk(tmp_path: Path) -> None:
    """12 section 1: a limit on everything: a full file is moved aside, once."""
    executor = telemetry.make({}, ExecutorPorts(tmp_path, None, lambda: 7))
    path = tmp_path / "logs" / "telemetry.jsonl"

    async def run() -> None:
        for name in ("a", "b", "c"):
            await executor.perform(emitting(name), Heard())
            with path.open("r+b") as file:
                file.truncate(FILE_BYTES_MAX)
        await executor.close()

    asyncio.run(run())
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "telemetry.1.jsonl",
        "telemetry.jsonl",
    ]


def test_telemetry_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    """04 section 5: a disk that refuses is told, not swallowed."""
    (tmp_path / "logs").write_text("in the way")
    executor = telemetry.make({}, ExecutorPorts(tmp_path, None, lambda: 7))
    got = performed(emitting("a"), executor)
    assert (got.kind, got.code, got.retryable) == ("server_error", "telemetry.unwritable", True)


def test_echo_answers_with_the_params() -> None:
    """04 section 5: an effect that is routed to it gets its params, never a secret's value."""
    executor = echo.make({"delay_ms": 1, "slots": 3}, PORTS)
    params = {"n": 1, "key": secret("k")}
    made = job("com.acme/ping@1", params, secrets={"/key": "canary-value"})
    assert performed(made, executor) == Ok(params)
    assert performed(made, echo.make({}, PORTS)) == Ok(params)
    assert (executor.slots, executor.effects) == (3, frozenset())


def test_a_line_that_finds_no_room_is_a_failure(tmp_path: Path) -> None:
    """04 section 6: half a line was told as ok, and the next one was glued to it."""
    made = emitting("a")
    executor = telemetry.make({}, ExecutorPorts(tmp_path, None, lambda: 7))
    path = tmp_path / "logs" / "telemetry.jsonl"

    async def run() -> list[Any]:
        first = await executor.perform(made, Heard())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # As on a full disk: a part is taken, and then no more.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
        try:
            second = await executor.perform(made, Heard())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        third = await executor.perform(made, Heard())
        await executor.close()
        return [first, second, third]

    first, second, third = asyncio.run(run())
    assert (first, third) == (Ok({}), Ok({}))
    assert (second.code, second.retryable) == ("telemetry.unwritable", True)
    lines = path.read_text("utf-8").splitlines()
    whole, _, last = lines
    assert json.loads(whole)["name"] == json.loads(last)["name"] == "a"
