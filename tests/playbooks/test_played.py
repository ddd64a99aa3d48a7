"""Executions in a whole node: real journal, real executors, replay."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.paged import Paged, paged
from tests.playbooks.rig import ended, played, playing, request, send, until

ROOT = Path(__file__).resolve().parents[2]
BOOKS = Path(os.environ.get("TALLY_PLAYBOOKS", str(ROOT.parent / "shared" / "playbooks")))
sandboxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

HEAD = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: demo}\n"


def their(name: str) -> str:
    """The text of a collected playbook; skips where the collection is not there."""
    found = sorted(BOOKS.glob(f"{name}_*.yaml"))
    if not found:
        pytest.skip(f"no playbook {name} in {BOOKS}: set TALLY_PLAYBOOKS")
    return found[0].read_text("utf-8")


# number, step-runs, part of one result
HERMETIC: list[tuple[str, dict[str, int], str, dict[str, Any]]] = [
    ("02", {"start": 1, "use_vars": 1, "end": 1}, "use_vars", {"result": 300}),
    ("05", {"start": 1, "step1": 1}, "step1", {}),
    ("06", {"start": 1, "loop_test": 1, "end": 1}, "loop_test", {}),
]


@sandboxed
@pytest.mark.clause("N-01", "N-03", "N-13", "N-22")
@pytest.mark.parametrize(("number", "runs", "step", "part"), HERMETIC)
def test_their_hermetic_playbooks(
    tmp_path: Path, number: str, runs: dict[str, int], step: str, part: dict[str, Any]
) -> None:
    """PB-26: other people's files end as the index says (the others: `TALLY_PLAYBOOKS_ALL=1`)."""
    found = asyncio.run(played(tmp_path, their(number)))
    assert (found.status, found.runs) == ("success", runs)
    assert part.items() <= found.results[step].items()


@contextmanager
def surroundings(**names: str) -> Iterator[None]:
    """The environment of the node with these names in it."""
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


ALL: list[tuple[str, dict[str, Any]]] = [
    ("01", {"step_runs": 3}),
    ("04", {"step_runs": 3}),
    ("08", {"step_runs": 7}),
    ("16", {"step_runs": 11, "requests": 4}),
    ("17", {"step_runs": 11, "requests": 4}),
    ("20", {"step_runs": 7, "requests": 5}),
    ("21", {"step_runs": 4, "requests": 1}),
    ("23", {"step_runs": 6, "iterations": 4}),
    ("24", {"step_runs": 5, "iterations": 100}),
    ("27", {"step_runs": 5}),
    ("28", {"step_runs": 9}),
    ("10", {"step_runs": 2, "requests": 1}),
    ("14", {"step_runs": 5, "requests": 4}),
    ("30", {"step_runs": 6, "iterations": 3}),
    ("12", {"step_runs": 3}),
]


@sandboxed
@pytest.mark.skipif("TALLY_PLAYBOOKS_ALL" not in os.environ, reason="takes minutes")
def test_their_retries_by_chance(tmp_path: Path) -> None:
    """PB-26, case 13: at most five attempts; the end runs in any case; failed only after all."""
    found = asyncio.run(played(tmp_path, their("13")))
    assert found.runs == {"start": 1, "end": 1}
    attempts = [row for row in found.net["failures"] if row["step"] == "start"]
    assert found.status == ("failed" if attempts else "success")


CASE_10: list[tuple[str, dict[str, Any], str, dict[str, int]]] = [
    ("done", {}, "success", {"start": 1, "fetch_data": 1}),
    ("down", {}, "failed", {"start": 1, "fetch_data": 1}),
    ("off", {"enabled": False}, "waiting", {}),
]


@sandboxed
@pytest.mark.skipif("TALLY_PLAYBOOKS_ALL" not in os.environ, reason="takes minutes")
@pytest.mark.parametrize(("case", "workload", "status", "runs"), CASE_10)
def test_their_canonical_example(
    tmp_path: Path, case: str, workload: dict[str, Any], status: str, runs: dict[str, int]
) -> None:
    """PB-26, case 10: a service that answers, one that is down, and a gate that stays shut."""

    async def main(service: Paged) -> dict[str, Any]:
        async with playing(tmp_path) as (node, world):
            url = service.url + ("/api/v1/errors" if case == "down" else "")
            await request(node, world, their("10"), workload={"api_url": url, **workload})
            return await until(node, world, "done", "waiting")

    with paged() as service:
        net = asyncio.run(main(service))
    assert (net["status"] or net["phase"], net["counts"]["step_runs"]) == (status, runs)
    assert len(service.asked) == {"done": 1, "down": 3, "off": 0}[case]


@sandboxed
@pytest.mark.skipif("TALLY_PLAYBOOKS_ALL" not in os.environ, reason="takes minutes")
@pytest.mark.parametrize(("number", "wanted"), ALL)
def test_all_their_playbooks(tmp_path: Path, number: str, wanted: dict[str, Any]) -> None:
    """PB-26: step-runs, iterations and requests as the index of the collection says."""

    async def main(service: Paged) -> Any:
        async with playing(tmp_path) as (node, world):
            await request(node, world, their(number), workload={"api_url": service.url})
            return await ended(node, world, seconds=300)

    if number == "12" and find_spec("duckdb") is None:
        pytest.skip("the driver duckdb is not installed: playbook 12 was not played")
    with paged() as service, surroundings(TEST_SECRET="s3cr3t-value"):
        found = asyncio.run(main(service))
    assert found.status == "success", found.net["failures"]
    assert sum(found.runs.values()) == wanted["step_runs"], found.runs
    assert sum(found.net["counts"]["iterations"].values()) == wanted.get("iterations", 0)
    assert len(service.asked) == wanted.get("requests", 0), service.asked
    assert "s3cr3t-value" not in str(found)


PAGES = (
    HEAD
    + """workload: {api: ""}
workflow:
  - step: pages
    tool:
      - name: init
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {page: 1, n: 0}}}}]}}
      - name: get
        kind: http
        url: "{{ workload.api }}/api/v1/flaky"
        params: {page: "{{ ctx.page }}", fail_on: "2,3"}
        spec:
          policy:
            rules:
              - {when: "{{ outcome.error.retryable }}", then: {do: retry, attempts: 2, delay: 0}}
              - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
              - when: "{{ outcome.result.data.paging.hasMore }}"
                then:
                  do: jump
                  to: get
                  set_ctx:
                    page: "{{ ctx.page + 1 }}"
                    n: "{{ ctx.n + (outcome.result.data.data | length) }}"
              - else:
                  then:
                    do: break
                    set_ctx: {n: "{{ ctx.n + (outcome.result.data.data | length) }}"}
"""
)


@pytest.mark.clause("N-20", "N-21", "N-03")
def test_a_pipeline_pages_through_a_service(tmp_path: Path) -> None:
    """PB-14: jump goes round, retry resets after success, break ends; each page asked once more."""

    async def main(service: Paged) -> Any:
        async with playing(tmp_path, enabled=["timer", "http", "playbook"]) as (node, world):
            await request(node, world, PAGES, workload={"api": service.url})
            found = await ended(node, world)
            verdict = await node.ops.verify(world, "replay")
            return found, verdict

    with paged() as service:
        found, verdict = asyncio.run(main(service))
    assert (found.status, found.ctx["n"], found.ctx["page"]) == ("success", 35, 4)
    assert len(service.asked) == 6
    assert verdict["ok"], verdict


@pytest.mark.clause("N-03", "K-19")
def test_a_tool_without_a_grant_is_denied(tmp_path: Path) -> None:
    """PB-22: no grant for the kind: denied with the slot, step.failed, and nothing was asked."""

    async def main(service: Paged) -> Any:
        async with playing(tmp_path, enabled=["timer", "http", "playbook"]) as (node, world):
            await request(node, world, PAGES, workload={"api": service.url}, grants={})
            return await ended(node, world)

    with paged() as service:
        found = asyncio.run(main(service))
    assert found.status == "failed"
    (row,) = found.net["failures"]
    assert (row["kind"], row["code"]) == ("denied", "cap.unbound")
    assert service.asked == []


GATE = (
    HEAD
    + """executor: {spec: {final_step: report}}
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}]}}}
    tool: {kind: noop}
  - {step: report, tool: {kind: noop}}
"""
)


@pytest.mark.clause("N-07", "N-08", "N-15")
def test_a_waiting_execution_survives_a_restart(tmp_path: Path) -> None:
    """PB-08, PB-11: waiting is durable; after a restart a patch opens the gate; replay agrees."""

    async def first() -> None:
        async with playing(tmp_path, enabled=["timer", "playbook"]) as (node, world):
            await request(node, world, GATE)
            net = await until(node, world, "waiting")
            assert net["counts"]["step_runs"] == {}

    async def second() -> Any:
        async with playing(tmp_path, enabled=["timer", "playbook"]) as (node, world):
            value = {"execution": "e1", "set": {"approved": True}, "unset": []}
            value |= {"reason": "checked", "principal": "ana"}
            await send(node, world, "sys/PlayCtxPatch@1", value)
            found = await ended(node, world)
            return found, await node.ops.verify(world, "replay")

    asyncio.run(first())
    found, verdict = asyncio.run(second())
    assert (found.status, found.runs) == ("success", {"gate": 1, "report": 1})
    assert found.net["ctx"]["approved"]["by"] == "ana"
    assert verdict["ok"], verdict
