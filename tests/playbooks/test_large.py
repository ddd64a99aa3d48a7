"""Large results: they travel by reference, and nothing large stands in a record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.frames import open_frame
from tallystick.model.records import put_record
from tests.playbooks.rig import ended, playing, request
from tests.playbooks.test_played import HEAD, sandboxed

TEXT = (
    HEAD
    + """workflow:
  - step: make
    tool: {kind: python, code: "result = {'rows': ['x' * 100] * %d, 'n': 5, 'deep': {'a': 7}}"}
    result: {output_select: [n, {path: deep.a, as: a}]}
    set_ctx: {n: "{{ make.n }}", a: "{{ make.a }}", size: "{{ make._ref.bytes }}"}
    next:
      arcs:
        - {step: use, when: "{{ (make.rows | length) > 2000 }}", args: {big: "{{ make.rows }}"}}
  - step: use
    tool:
      - name: count
        kind: python
        args: {rows: "{{ args.big }}"}
        code: "rows.append(1); result = {'n': len(rows)}"
      - name: again
        kind: python
        args: {rows: "{{ args.big }}"}
        code: "result = {'n': len(rows)}"
    next: {arcs: [{step: read}]}
  - step: read
    tool: {kind: artifact, action: get, args: {result_ref: "{{ make._ref }}"}}
    set_ctx: {total: "{{ read.data.rows | length }}", counts: "{{ use.results }}"}
"""
)


ON = (
    HEAD
    + """workflow:
  - step: make
    tool: {kind: python, code: "result = {'rows': ['x' * 100] * %d, 'n': 5}"}
    next: {arcs: [{step: use, when: "{{ make }}", args: {all: "{{ make }}"}}]}
  - step: use
    tool: {kind: artifact, action: get, args: {result_ref: "{{ args.all._ref }}"}}
    set_ctx: {n: "{{ args.all.n }}", size: "{{ use._ref.bytes }}"}
"""
)


def played(tmp_path: Path, rows: int, text: str = TEXT) -> tuple[Any, int, Any]:
    """The execution, the size of its largest record, and what a replay says."""

    async def main() -> tuple[Any, int, Any]:
        async with playing(tmp_path, enabled=["timer", "python", "playbook"]) as (node, world):
            await request(node, world, text % rows)
            found = await ended(node, world)
            frames = await node.read(lambda reader: list(reader.read(world)))
            records = [record for frame in frames for record in open_frame(frame.body)[3]]
            most = max(len(put_record(record)) for record in records)
            return found, most, await node.ops.verify(world, "replay")

    return asyncio.run(main())


@sandboxed
@pytest.mark.clause("N-12", "K-44")
@pytest.mark.parametrize(("rows", "size"), [(2500, 250_000), (10_279, 1_048_400)])
def test_a_large_result_travels_by_reference(tmp_path: Path, rows: int, size: int) -> None:
    """PB-21: 250 KB and 1 MiB: selected fields, `_ref`, a guard over a member, args and artifact;
    no record is over 64 KiB; what one task does to its args, the next does not see.
    """
    found, most, verdict = played(tmp_path, rows)
    assert found.status == "success", (found.net["failures"], found.net["doom"])
    assert (found.ctx["n"], found.ctx["a"], found.ctx["total"]) == (5, 7, rows)
    assert size < found.ctx["size"] <= 1 << 20
    assert found.ctx["counts"] == {"count": {"n": rows + 1}, "again": {"n": rows}}
    assert most <= 65_536
    assert verdict["ok"], verdict


@sandboxed
@pytest.mark.clause("N-12", "N-10")
def test_a_member_of_what_is_too_large_is_an_error(tmp_path: Path) -> None:
    """PB-21: over 1 MiB a member is not read: P207 with a hint, never a silent false."""
    found, most, _ = played(tmp_path, 12_000)
    assert found.status == "failed"
    assert "P207" in found.net["doom"]["message"]
    assert found.ctx["n"] == 5
    assert most <= 65_536


@sandboxed
@pytest.mark.clause("N-12", "N-10")
def test_what_is_only_passed_on_is_never_read(tmp_path: Path) -> None:
    """PB-21: over 1 MiB a whole value is still true, still an arg, and is read by its reference."""
    found, most, verdict = played(tmp_path, 12_000, ON)
    assert found.status == "success", (found.net["failures"], found.net["doom"])
    assert found.ctx["n"] == 5
    assert found.ctx["size"] > 1_200_000
    assert most <= 65_536
    assert verdict["ok"], verdict
