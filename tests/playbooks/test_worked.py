"""The worked playbook of the design: its table, tick by tick, also killed after each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.model.records import Ticked
from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.trace import events_of
from tallystick.values import canon
from tests.playbooks.kernel import PlayRig, state_in
from tests.playbooks.stage import done
from tests.playbooks.test_killed import killed as died
from tests.rig import Rig

TEXT = (Path(__file__).resolve().parents[2] / "examples/20-playbooks/release.yaml").read_text(
    "utf-8"
)
GRANTS = {"http": {}, "file": {}}
# tick -> what the net tells, shortened; tokens that live; runs and their open iterations
TABLE: list[tuple[list[str], list[str], list[str]]] = [
    (
        [
            *("playbook.started", "token.enqueued t1 plan", "step.scheduled r1", "ctx.patched"),
            *("step.done r1", "next.evaluated [0, 1]", "group.opened g1"),
            *("token.enqueued t2 collect", "token.enqueued t3 legal", "step.scheduled r2"),
            *("loop.started 2", "loop.iteration.scheduled 0", "loop.iteration.scheduled 1"),
            "policy.admit.evaluated False",
        ],
        ["t3 pending"],
        ["r2 [0, 1]"],
    ),
    (["loop.iteration.done 1"], ["t3 pending"], ["r2 [0]"]),
    (
        [
            *("loop.iteration.done 0", "loop.done r2", "next.evaluated [0]"),
            *("token.enqueued t4 publish", "playbook.waiting"),
        ],
        ["t3 pending", "t4 joining"],
        [],
    ),
    (
        [
            *("ctx.patched", "ctx.patch", "policy.admit.evaluated True", "step.scheduled r3"),
            *("step.done r3", "next.evaluated [0]", "token.enqueued t5 publish", "join.fired"),
            *("step.scheduled r4", "group.closed g1"),
        ],
        [],
        ["r4 []"],
    ),
    (
        [
            *("step.done r4", "next.evaluated []", "playbook.quiescent success"),
            *("token.enqueued t6 report", "step.scheduled r5", "step.done r5"),
            "playbook.finished success",
        ],
        [],
        [],
    ),
]


def short(event: dict[str, Any]) -> str:
    """An event of the net in the words of the table; None for those that it leaves out."""
    word = event["event"]
    keys = {
        "token.enqueued": ("token", "step"),
        "step.scheduled": ("run",),
        "step.done": ("run",),
        "loop.done": ("run",),
        "loop.started": ("n",),
        "next.evaluated": ("matched",),
        "group.opened": ("group",),
        "group.closed": ("group",),
        "policy.admit.evaluated": ("allow",),
        "playbook.quiescent": ("status",),
        "playbook.finished": ("status",),
        "loop.iteration.scheduled": ("iteration",),
        "loop.iteration.done": ("iteration",),
    }.get(word, ())
    return " ".join([word, *(str(event[key]) for key in keys)])


def told(rig: Rig) -> list[str]:
    """What the last tick of the execution told, without what every token has."""
    ticks = [each for each in rig.records(Ticked) if each.workflow == WORKFLOW]
    assert ticks[-1].ann is not None
    events = events_of(ticks[-1].ann)
    return [short(each) for each in events if each["event"] != "token.consumed"]


def marking(rig: Rig) -> tuple[list[str], list[str]]:
    state = state_in(rig)
    net, loops = state["net"], state["loops"]
    tokens = [f"{name} {token['at']}" for name, token in net["tokens"].items()]
    runs = [f"{name} {loops[name]['open'] if name in loops else []}" for name in net["runs"]]
    return tokens, runs


@pytest.mark.clause("N-09", "N-22", "K-19")
@pytest.mark.parametrize("killed", [False, True])
def test_the_table_of_the_design(killed: bool) -> None:
    """PB-25: events and markings of every tick are those of the table, also reopened after each."""
    first = PlayRig()
    first.request(TEXT, grants=GRANTS)
    rig: Rig = first
    jobs = {canon.decode(job.params)["iteration"]: job for job in first.jobs.all}
    moves = [
        lambda: rig.settle(jobs[1], done({"log": []})),
        lambda: rig.settle(jobs[0], done({"log": []})),
        lambda: system(rig, "sys/PlayCtxPatch@1", {"approved": True}),
        lambda: rig.settle(rig.jobs.all[-1], done()),
    ]
    for i, (events, tokens, runs) in enumerate(TABLE):
        assert told(rig) == events
        assert marking(rig) == (tokens, runs)
        if killed:
            rig = died(rig)
        if i < len(moves):
            moves[i]()
    net = state_in(rig)["net"]
    assert (net["status"], net["counts"]["created"], net["counts"]["consumed"]) == ("success", 6, 6)
    assert net["ctx"]["approved"]["by"] == "ana"
    assert rig.verify().first is None


def system(rig: Rig, schema: str, keys: dict[str, Any]) -> None:
    value = {"execution": "e1", "set": keys, "unset": [], "reason": "checked", "principal": "ana"}
    PlayRig.system(rig, schema, value)  # type: ignore[arg-type]  # a reopened rig is a plain one
