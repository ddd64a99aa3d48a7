"""Each guard by itself, at its edges: what scenarios show in a story, as a table (RX-01)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallystick.reactions import guards
from tallystick.reactions.document import Definition, load
from tallystick.reactions.stamps import ADOPTED, Stamp, Stamps

WS = "ws-1"
PATH = b"out/x"
PLACE = (WS, PATH)
ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
SECOND = 1_000_000_000


def defined(*lines: str) -> Definition:
    more = "\n".join(lines)
    return load(
        f"""
reaction: own
on: [{{files: ["in/**"]}}]
writes: {{files: ["out/**"]}}
{more}
actions: [{{name: w, file.write: {{path: out/x, content: x}}}}]
""",
        "own",
    )


def stamp(reaction: str = "own", **more: Any) -> Stamp:
    made = Stamp(WS, PATH, ONE, reaction, "run-1", "key-1", "sha256:d", 0, "root-1", ())
    return made._replace(**more)


def stamped(*rows: Stamp) -> Stamps:
    made = Stamps()
    for row in rows:
        made.add(row)
    return made


OWN = defined()


@pytest.mark.parametrize(
    ("row", "after", "is_own", "is_output"),
    [
        (stamp(), ONE, True, True),
        (stamp(), TWO, False, True),
        (stamp(), None, False, True),
        (stamp(post_id=None), None, True, True),
        (stamp("other"), ONE, False, False),
        (stamp(state=ADOPTED), ONE, False, False),
        (stamp(world="elsewhere"), ONE, False, False),
        (stamp(path=b"out/y"), ONE, False, False),
    ],
)
def test_g2_g3_whose_bytes(row: Stamp, after: str | None, is_own: bool, is_output: bool) -> None:
    """G2, G3: own bytes by name, content and place; own outputs by name and place alone."""
    stamps = stamped(row)
    assert guards.is_self(OWN, PLACE, after, stamps) is is_own
    assert guards.is_own_output(OWN, PLACE, stamps) is is_output
    assert guards.is_own_output(defined("overlap: in_place"), PLACE, stamps) is False


def test_g3_what_is_asked_for() -> None:
    """G3: outputs of others only where asked for; denied globs by the rule that denies."""
    assert guards.takes_generated({"generated": True}) is True
    assert guards.takes_generated({"generated": False}) is False
    ignoring = defined('ignore: ["in/vendor/**"]')
    assert guards.is_ignored(ignoring, b"", b"in/vendor/x") == "in/vendor/**"
    assert guards.is_ignored(ignoring, b"", b"in/x") is None
    assert guards.out_of_scope(OWN, b"", "out/x") is None
    assert guards.out_of_scope(OWN, b"", "in/x") == "in/x is outside of writes"


def test_g1_the_writer_is_the_stamp_of_these_bytes() -> None:
    """G1: the newest live stamp of the bytes at the path, or nobody."""
    first, last = stamp(run_id="run-1"), stamp(run_id="run-2")
    stamps = stamped(first, stamp(post_id=TWO), last)
    assert guards.writer_of(PLACE, ONE, stamps) == last
    assert guards.writer_of(PLACE, "sha256:" + "3" * 64, stamps) is None
    assert guards.writer_of((WS, b"out/y"), ONE, stamps) is None


def test_g5_a_copy_is_told_from_chance() -> None:
    """G5: the deepest output of the same 64 bytes or more at another path; only if traced."""
    shallow, deep = stamp("a", path=b"a", depth=1), stamp("b", path=b"b", depth=3)
    stamps = stamped(shallow, deep, stamp("c", path=b"c", depth=2), stamp(depth=9))
    assert guards.copied_from(OWN, PLACE, (ONE, 64), stamps) == deep
    assert guards.copied_from(OWN, PLACE, (ONE, 63), stamps) is None
    assert guards.copied_from(OWN, PLACE, (None, 64), stamps) is None
    assert guards.copied_from(OWN, PLACE, (TWO, 64), stamps) is None
    assert guards.copied_from(OWN, PLACE, (ONE, 64), stamped(stamp())) is None, "where it was put"
    elsewhere = stamped(stamp(workspace_id="ws-2"))
    assert guards.copied_from(OWN, PLACE, (ONE, 64), elsewhere) is not None
    untraced = defined("copy_lineage: false")
    assert guards.copied_from(untraced, PLACE, (ONE, 64), stamps) is None


def test_stage_4_trust_depth_lineage_worlds() -> None:
    """Stage 4: untrusted, too deep, in its own lineage too often, foreign."""
    assert guards.is_untrusted({"trusted": False}) is True
    assert guards.is_untrusted({"trusted": True}) is False
    for depth, deep in ((3, False), (4, False), (5, True)):
        assert guards.is_too_deep(OWN, {"depth": depth}) is deep
    again = defined("reentry: {max: 2}")
    for lineage, plain, twice in (
        (["a", "b"], False, False),
        (["own"], True, False),
        (["own", "a", "own"], True, False),
        (["own"] * 3, True, True),
    ):
        assert guards.is_reentry(OWN, {"lineage": lineage}) is plain
        assert guards.is_reentry(again, {"lineage": lineage}) is twice
    assert guards.is_cross_world({"cause": "foreign:w2"}) is True
    assert guards.is_cross_world({"cause": "external"}) is False


def test_g6_a_window_is_open_until_its_end() -> None:
    """G6: before its end, and never for a command."""
    lane = {"cool_until_ns": 100}
    for kind, now_ns, cooling in (
        ("fs.changed", 99, True),
        ("fs.changed", 100, False),
        ("command", 99, False),
    ):
        assert guards.is_cooling(lane, {"kind": kind}, now_ns) is cooling


def test_g8_runs_and_tokens_of_the_window() -> None:
    """G8: as many runs, or tokens, as allowed within the window; what is as old as it is out."""
    limited = defined("breaker: {runs: 2, window: 10s, tokens: 100}")
    now = 60 * SECOND
    edge = now - 10 * SECOND

    def tripped(starts: list[int], spent: list[tuple[int, int]], of: Definition = limited) -> bool:
        return guards.is_tripped(of, {"starts": starts, "spent": spent}, now)

    assert tripped([], []) is False
    assert tripped([now], []) is False
    assert tripped([now, now], []) is True
    assert tripped([edge + 1, edge + 1], []) is True
    assert tripped([edge, edge + 1], []) is False
    assert tripped([], [(now, 99)]) is False
    assert tripped([], [(now, 60), (edge + 1, 40)]) is True
    assert tripped([], [(now, 60), (edge, 40)]) is False
    assert tripped([], [(now, 10**9)], defined("breaker: {runs: 2, window: 10s}")) is False


def test_r8_g5_counts() -> None:
    """R8: one attempt makes a key known; G5: 256 runs of one cause are all that it gets."""
    assert guards.is_known([]) is False
    assert guards.is_known([{}]) is True
    assert guards.CAUSE_MAX == 256
    assert guards.is_over_cause({}, "root-1") is False
    assert guards.is_over_cause({"root-1": 255, "root-2": 256}, "root-1") is False
    assert guards.is_over_cause({"root-1": 256}, "root-1") is True


def test_g4_g7_runs() -> None:
    """Actions over the limit; an end is an end; a receipt is of this action and this key."""
    assert guards.is_fan_out(defined("limits: {actions: 1}")) is False
    one = defined("limits: {actions: 1}")
    twice = {**one.form, "actions": [*one["actions"], *one["actions"]]}
    assert guards.is_fan_out(replace(one, form=twice)) is True
    ends = ("complete", "failed", "aborted")
    for state in (*ends, "queued", "running"):
        assert guards.is_terminal({"state": state}) is (state in ends)
    done = {"w": {"action_key": "k"}}
    assert guards.is_done(done, "w", "k") is True
    assert guards.is_done(done, "w", "other") is False
    assert guards.is_done(done, "v", "k") is False


def test_g5_what_outputs_cause() -> None:
    """G5: one deeper than the deepest, with all lineages, the deepest's first, no name twice.

    Among equally deep ones the name decides, then the run.
    """
    deep = stamp("c", depth=2, lineage=("a", "b"), run_id="r3")
    other = stamp("b", depth=1, lineage=("x", "a"), run_id="r2")
    third = stamp("y", depth=0, run_id="r1")
    assert guards.derived([third, other, deep]) == (3, ["a", "b", "c", "x", "y"], deep)
    assert guards.derived([third]) == (1, ["y"], third)
    early, late = stamp("b", run_id="r1"), stamp("b", run_id="r2")
    before = stamp("a", run_id="r9")
    assert guards.derived([late, early])[2] == early
    assert guards.derived([late, early, before])[2] == before
