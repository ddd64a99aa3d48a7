"""Groups inside of groups: which join takes whom, and what dissolves, as a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.playbooks.stage import Stage, broken, done
from tests.playbooks.test_net import NOOP, WORK, book, runs


class Nested(NamedTuple):
    """An inner split in one branch of an outer one: its two joins, and what is to come of them.

    `absorbed` are those who came too late, `fired` the steps that joined, in their order.
    """

    inner: str
    outer: str
    fired: list[str]
    absorbed: int
    status: str = "success"
    lost: str = ""  # a step that fails


TABLE: dict[str, Nested] = {
    "all in all": Nested("join: all", "join: all", ["k", "j"], 0),
    "any in all": Nested("join: any", "join: all", ["k", "j"], 1),
    "all in any": Nested("join: all", "join: any", ["j", "k"], 1),
    "any in any": Nested("join: any", "join: any", ["j", "k"], 2),
    "two of two": Nested("join: {mode: n_of_m, n: 2}", "join: all", ["k", "j"], 0),
    "steps": Nested("join: {mode: all, steps: [c, d]}", "join: all", ["k", "j"], 0),
    "rest cancelled": Nested("join: {mode: any, cancel_rest: true}", "join: all", ["k", "j"], 0),
    "an inner one failed": Nested("join: all", "join: all", ["k", "j"], 0, "failed", "d"),
    "an outer one failed": Nested("join: all", "join: all", ["k", "j"], 0, "failed", "b"),
}


def arcs(*names: str, mode: str = "exclusive") -> str:
    return f"next: {{spec: {{mode: {mode}}}, arcs: [{', '.join(f'{{step: {n}}}' for n in names)}]}}"


def net(inner: str, outer: str) -> str:
    """s splits into a and b; a splits into c and d, which meet at k; k and b meet at j."""
    return book(
        f"step: s, {arcs('a', 'b', mode='inclusive')}",
        f"step: a, {arcs('c', 'd', mode='inclusive')}",
        f"step: b, {WORK}, {arcs('j')}",
        f"step: c, {WORK}, {arcs('k')}",
        f"step: d, {WORK}, {arcs('k')}",
        f"step: k, {inner}, {WORK}, {arcs('j')}",
        f"step: j, {outer}, {NOOP}",
    )


@pytest.mark.clause("N-22")
@pytest.mark.parametrize("case", TABLE)
def test_nested_joins(case: str) -> None:
    """PB-16: each join fires once for the group of its own split, whatever the other one does."""
    row = TABLE[case]

    def worker(params: dict[str, Any]) -> Any:
        # A failed branch ends there: its guard lets only what went well go on.
        return broken() if params["step"] == row.lost else done()

    text = net(row.inner, row.outer)
    if row.lost:
        on = f"step: {row.lost}, {WORK}, next: {{spec: {{mode: exclusive}}, arcs: [{{"
        assert on in text
        text = text.replace(on, on + "when: \"{{ event.name == 'step.done' }}\", ")
    stage = Stage(text).play(worker)
    assert [told["step"] for told in stage.told("join.fired")] == row.fired
    assert stage.net["counts"]["absorbed"] == row.absorbed
    assert (runs(stage)["j"], runs(stage)["k"]) == (1, 1)
    assert stage.net["status"] == row.status
    assert [told["group"] for told in stage.told("group.opened")] == ["g1", "g2"]
    assert not stage.net["tokens"]
    assert set(stage.net["groups"]) == {"g0"}
    assert stage.replays()


OF: list[tuple[str, int, int]] = [
    # join at the end of both levels; how often it fires; how many steps it takes together
    ("join: all", 1, 3),
    ("join: {mode: all, of: s}", 1, 3),
    ("join: {mode: all, of: a}", 2, 3),
]


@pytest.mark.clause("N-22")
@pytest.mark.parametrize(("join", "times", "together"), OF)
def test_the_group_that_a_join_is_of(join: str, times: int, together: int) -> None:
    """PB-16: by default the outermost split all of whose arcs lead here; `of` names another.

    For the outer split all three come together and the inner group dissolves; for the inner one
    its two members are one run, and who was never in it is another.
    """
    text = book(
        f"step: s, {arcs('a', 'b', mode='inclusive')}",
        f"step: a, {arcs('c', 'd', mode='inclusive')}",
        *(f"step: {name}, {WORK}, {arcs('j')}" for name in "bcd"),
        f"step: j, {join}, {NOOP}",
    )
    stage = Stage(text).play()
    assert stage.net["status"] == "success", stage.net["failures"]
    assert runs(stage)["j"] == times
    taken = [told["run"] for told in stage.told("token.consumed") if told["step"] == "j"]
    assert (len(taken), len(set(taken))) == (together, times)
    assert set(stage.net["groups"]) == {"g0"}
    assert stage.replays()
