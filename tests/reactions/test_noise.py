"""Noise: many events, few runs (S15 to S17, RX-13)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.reactions import ids
from tallystick.reactions.observation import Request
from tests.reactions.desk import SECOND
from tests.reactions.scenario import at_desk, guarded

COUNT = """
reaction: count
target: {kind: directory, match: src}
on: [{files: ["./**"]}]
writes: {files: ["out/**"]}
actions:
  - {name: in, file.read: {paths: ["src/**"]}}
  - {name: out, file.write: {path: out/n.txt, content: "{{ actions.in.files | length }}"}}
"""

DIGEST = """
reaction: digest
target: {kind: directory, match: src}
on: [{files: ["./**"]}]
writes: {files: ["out/**"]}
actions: [{name: out, file.write: {path: out/n.txt, content: "{{ trigger.input_digest }}"}}]
"""

SUMMARY = """
reaction: summary
on: [{files: [a.txt, b.txt]}]
reads: {files: [a.txt]}
writes: {files: [out.md]}
cooldown: 0ms
actions:
  - {name: in, file.read: {paths: [a.txt]}}
  - {name: words, provider.call: {model: small-1, prompt: sum.md, input: "{{ actions.in.text }}"}}
  - {name: out, file.write: {path: out.md, content: "{{ actions.words.text }}"}}
"""


def _by_number(_mode: str, trigger: Mapping[str, Any], _changes: object = ()) -> str:
    """A fingerprint that is wrong: it knows which look it came from."""
    return ids.text(ids.H("fingerprint@1", n=trigger["observed_n"]))


@pytest.mark.clause("F-07")
@guarded(keys__fingerprint=_by_number)
def test_s15_batches_do_not_matter(root: Path) -> None:
    """S15: the same 50 edits in 1, 7 or 50 looks: the run of the final state has one key."""
    found: list[str] = []
    for size in (50, 8, 1):
        with at_desk(root / str(size), DIGEST) as desk:
            desk.write("src/f0", "0")
            desk.begin()
            for i in range(50):
                desk.write(f"src/f{i}", f"v{i}")
                if i % size == size - 1:
                    desk.observe()
                    desk.pass_ms(10)
            desk.observe()
            desk.work()
            desk.rest()
            found.append(desk.runs()[-1]["run_key"])
            digests = [row["input_digest"] for row in desk.told("TriggerOffered")]
            assert len(set(digests)) == -(-50 // size)
            assert desk.read("out/n.txt") == digests[-1]
    assert len(set(found)) == 1


@pytest.mark.clause("F-09")
@guarded(is_known=False)
def test_s16_a_state_that_returns_is_restored(root: Path) -> None:
    """S16: content A, B, then A again: no call of a model, A's output back, one replay attempt."""
    with at_desk(root, SUMMARY, prompts={"sum.md": b"say it shorter"}) as desk:
        desk.write("a.txt", "")
        desk.begin()
        for state in ("A", "B"):
            desk.answer = f"short {state}"
            desk.write("a.txt", state)
            desk.settle_down()
            desk.rest()
            assert desk.read("out.md") == f"short {state}"
        assert len(desk.models) == 2
        decisions = len(desk.told("Decision"))
        desk.answer = "must not be asked for"
        desk.write("a.txt", "A")
        desk.settle_down()
        assert desk.read("out.md") == "short A"
        assert len(desk.models) == 2
        assert len(desk.told("Decision")) == decisions
        attempts = desk.run_body(desk.runs()[0]["run_key"])["attempts"]
        assert [each["kind"] for each in attempts] == ["run", "replay"]
        assert attempts[1]["state"] == "complete"
        assert desk.outcomes()[-1] == ("replayed", None)
        desk.write("b.txt", "watched, and not read")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("reused", None)
        assert len(desk.models) == 2


@pytest.mark.clause("F-15", "F-22")
@guarded(is_cooling=False)
def test_s17_edits_inside_the_window_are_one(root: Path) -> None:
    """S17, RX-13: v1 to v5 inside the cooldown: two runs, v1 and v5; the final output is v5's."""
    quick = COUNT.replace("reaction: count", "reaction: count\nmode: {queue: 100}")
    with at_desk(root, quick) as desk:
        desk.write("src/f0", "0")
        desk.begin()
        for i in range(1, 6):
            desk.write(f"src/f{i}", "v")
            desk.settle_down()
            desk.pass_ms(100)
        assert desk.read("out/n.txt") == "2"
        desk.rest()
        assert desk.read("out/n.txt") == "6"
        assert len(desk.runs()) == 2
        assert desk.outcomes("count").count(("deduped", "coalesced")) == 3
        last = desk.told("RunRequested")[-1]["trigger"]
        assert last["coalesced"] == 3
        assert last["cooldown_remaining_ms"] > 0


@pytest.mark.clause("F-15")
@guarded(is_cooling=False)
def test_the_same_trigger_again_is_cooled_down(root: Path) -> None:
    """F-15: an identical trigger inside the window is a record, not a run; a command passes."""
    narrow = COUNT.replace('on: [{files: ["./**"]}]', 'on: [{files: ["./**"]}, {command: true}]')
    narrow = narrow.replace("writes:", "reads: {files: [src/f0]}\nwrites:")
    with at_desk(root, narrow) as desk:
        desk.write("src/f0", "0")
        desk.begin()
        desk.write("src/f0", "1")
        desk.settle_down()
        desk.write("src/other", "not read")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("cooled_down", None)
        assert len(desk.runs()) == 1
        desk.settle_down(commands=[Request("count", b"src")])
        assert len(desk.runs()) == 2


@pytest.mark.clause("F-22")
def test_rx13_one_window_one_run(tmp_path: Path) -> None:
    """RX-13: N changes of one file in one look are one trigger on the last content."""
    with at_desk(tmp_path / "w", COUNT) as desk:
        desk.write("src/f0", "0")
        desk.begin()
        for i in range(100):
            desk.write("src/f0", f"{i}")
        desk.settle_down()
        desk.rest()
        assert len(desk.runs()) == 1
        (offered,) = desk.told("TriggerOffered")
        assert len(offered["changes"]) == 1


@pytest.mark.clause("F-15", "F-20")
def test_what_waited_does_not_run_after_something_newer(tmp_path: Path) -> None:
    """RX-12: the window is over but its timer is late: the newer state replaces what waits."""
    with at_desk(tmp_path / "w", DIGEST) as desk:
        desk.write("src/f", "0")
        desk.begin()
        desk.write("src/f", "1")
        desk.settle_down()
        desk.write("src/f", "2")
        desk.observe()
        assert desk.lane_body("digest", "src")["pending"] is not None
        desk.clock.now_ns += 5 * SECOND
        desk.write("src/f", "3")
        desk.observe()
        desk.work()
        desk.rest()
        assert len(desk.runs()) == 2
        assert desk.outcomes("digest").count(("deduped", "coalesced")) == 1
        assert desk.read("out/n.txt") == desk.told("TriggerOffered")[-1]["input_digest"]


@pytest.mark.clause("F-20", "F-09")
def test_an_overtaken_state_runs_when_it_returns(tmp_path: Path) -> None:
    """RX-12: a run that was given up because its input moved is no answer when that returns."""
    with at_desk(tmp_path / "w", COUNT.replace("writes:", "cooldown: 0ms\nwrites:")) as desk:
        desk.write("src/f0", "0")
        desk.begin()
        desk.write("src/f0", "1")
        desk.observe()
        desk.write("src/f0", "2")
        desk.work()
        desk.settle_down()
        assert (desk.runs()[0]["outcome"], desk.runs()[0]["code"]) == ("aborted", "input_moved")
        desk.write("src/f0", "1")
        desk.settle_down()
        first, last = desk.runs()[0], desk.runs()[-1]
        assert (last["outcome"], last["kind"]) == ("complete", "retry")
        assert last["run_key"] == first["run_key"]
