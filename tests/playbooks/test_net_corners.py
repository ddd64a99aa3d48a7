"""Rarer turns of a net: signals, pauses, deadlines, lost children, bounds, values by reference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.playbooks import net as nets
from tallystick.playbooks import tasks
from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.follow import follow
from tallystick.playbooks.iterate import _is_still
from tallystick.playbooks.play import STEP, TIMER, _Results
from tallystick.playbooks.values import Scope, StepValue, Values
from tallystick.playbooks.written import Memory, Rows, holds
from tallystick.values import canon
from tests.playbooks.kernel import PlayRig
from tests.playbooks.stage import Stage, broken, done
from tests.playbooks.test_children import CHILD, PARENT, play, rig_with
from tests.playbooks.test_net import NOOP, WORK, book
from tests.playbooks.test_pipeline import FINE, ran, task
from tests.reactions.scenario import planted

LOOP = "loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}"


# ---- waits ------------------------------------------------------------------------------------


def test_a_signal_wakes_the_run_that_waits_for_it() -> None:
    """PB-17: the value of the signal is the result; another signal wakes nobody."""
    stage = Stage(book("step: a, tool: {kind: wait, signal: go}", spec=""))
    stage.take("Signalled", {"execution": "e1", "name": "other", "value": 1, "principal": "ana"})
    assert stage.net["phase"] == "running"
    stage.take("Signalled", {"execution": "e1", "name": "go", "value": 7, "principal": "ana"})
    assert stage.net["status"] == "success"
    assert stage.net["results"]["a"]["v"] == {"v": 7}
    assert stage.replays()


def test_a_task_of_the_cell_pauses_before_it_tries_again() -> None:
    """PB-14: a retry with a delay sets a timer, and the task runs once more behind it."""
    again = "{when: '{{ _attempt < 2 }}', then: {do: retry, delay: 2}}"
    rules = f"[{again}, {{else: {{then: {{do: break}}}}}}]"
    stage = Stage(book(f"step: a, tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}"))
    (asked,) = stage.open.values()
    assert (asked.effect, asked.params["deliver_at_ns"] - stage.now_ns) == (TIMER, 2 * 10**9)
    stage.play()
    assert stage.net["status"] == "success"
    assert stage.replays()


def test_a_deadline_that_was_taken_back_ends_nothing() -> None:
    """PB-13: only a deadline that has come ends an execution, and only one that still runs."""
    stage = Stage(book(f"step: a, {WORK}", spec="deadline: 10s"))
    payload = {"kind": "cancelled", "code": "effect.cancelled", "message": "", "retryable": False}
    stage.settle("deadline", payload, "cancelled")
    assert stage.net["phase"] == "running"
    assert stage.play().net["status"] == "success"


def test_an_answer_for_an_iteration_that_is_over_finds_nobody() -> None:
    """PB-20: a late receipt of a loop changes nothing."""
    stage = Stage(book(f"step: a, {LOOP}, {WORK}"))
    steps = [ref for ref, asked in stage.open.items() if asked.effect == STEP]
    before = stage.state
    late = {"effect": STEP, "status": {"$tag": "ok"}, "receipt_payload": canon.encode(done())}
    stage.take("Receipt", {**late, "issuer_ref": steps[0].replace("/0#", "/9#")})
    assert stage.state == before
    assert stage.play().net["status"] == "success"


# ---- children ---------------------------------------------------------------------------------


def test_a_child_by_a_hash_that_is_none() -> None:
    """PB-24: what is no hash names no playbook; the task fails, nothing hangs."""
    rig = PlayRig()
    rig.request(book("step: a, tool: {kind: playbook, hash: nobody}"))
    assert rig.net()["failures"][0]["code"] == "playbook.unknown"


def test_a_child_that_was_cancelled_fails_its_task() -> None:
    """PB-24: the parent hears that it was cancelled, and goes its way for failures."""
    rig = rig_with(CHILD)
    rig.request(PARENT % ("", "7"))
    rig.operate("cancel", WORKFLOW, "e1.r1.2")
    assert rig.net()["failures"][0]["code"] == "child.cancelled"
    assert rig.net()["counts"]["step_runs"] == {"call": 1, "bad": 1}


def test_a_loop_in_a_child_knows_the_loop_that_called_it() -> None:
    """PB-15: `iter.parent` is the iteration of the caller."""
    inner = CHILD.replace(
        "step: first\n", "step: first\n    loop: {in: [1], iterator: k}\n"
    ).replace("{{ workload.n }}", "{{ iter.parent.i }}")
    rig = rig_with(inner)
    loop = "loop: {in: [5, 6], iterator: i, spec: {mode: parallel}}"
    rig.request(PARENT % (loop, '"{{ iter.i }}"'))
    seen: list[Any] = []

    def answer(params: dict[str, Any]) -> Any:
        seen.append(params["iter"]["parent"]["i"])
        return done()

    play(rig, answer)
    assert sorted(seen) == [5, 6]


# ---- bounds -----------------------------------------------------------------------------------


def test_failures_and_reasons_are_bounded() -> None:
    """PB-19: so many failures are kept; the first reason for the end stays."""
    both = "next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}"
    with planted(nets, "FAILURES_MAX", 1):
        stage = Stage(book(f"step: a, {NOOP}, {both}", f"step: b, {WORK}", f"step: c, {WORK}"))
        stage.play(lambda _: broken())
        assert (len(stage.net["failures"]), stage.net["counts"]["failed"]) == (1, 2)
    limits = "limits: {max_tokens: 3}, policy: {fail_fast: true}"
    stage = Stage(book(f"step: a, {NOOP}, next: {{arcs: [{{step: a}}]}}", spec=limits)).play()
    first = dict(stage.net["doom"])
    made = nets.Net(stage.net, {}, stage.answer.plan, Values(stage.blobs.__getitem__))
    made.doom("P407", "second")
    assert stage.net["doom"] == first


def test_notes_of_tasks_are_bounded() -> None:
    """PB-14: a pipeline that runs many tasks notes the first of them."""
    many = ", ".join(task(f"t{n}") for n in range(3))
    with planted(tasks, "NOTES_MAX", 2):
        performed, _, _, pipeline = ran(f"[{many}]", lambda _: FINE)
    assert (len(performed), len(pipeline.frame["notes"])) == (3, 2)


# ---- values -----------------------------------------------------------------------------------


def test_results_of_a_loop_that_are_too_large_stand_by_reference() -> None:
    """PB-21: an iteration's own reference is shown as its shell, other large ones by their hash."""
    stage = Stage(book(f"step: a, {LOOP}, {WORK}"))
    value = canon.encode({"rows": "r" * 100_000})
    name = canon.hash_of(value)
    stage.blobs[name] = value
    first, second = [ref for ref, asked in stage.open.items() if asked.effect == STEP]
    stage.settle(first, done({"rows": "…"}, ref=name, size=len(value)))
    stage.settle(second, done("x" * 200_000))
    kept = stage.net["results"]["a"]["v"]
    read = kept["v"] if "v" in kept else canon.decode(stage.blobs[kept["h"]])
    assert read["results"][0] == {"rows": "…"}
    assert read["results"][1]["_ref"]["bytes"] > 200_000


def test_a_gate_may_ask_what_led_to_it() -> None:
    """PB-08: the event of the arc is kept with the token for a gate that reads it."""
    when = "{{ event.result.n == 1 }}"
    gate = f"spec: {{policy: {{admit: {{rules: [{{when: '{when}', then: {{allow: true}}}}]}}}}}}"
    net = book(f"step: a, {WORK}, next: {{arcs: [{{step: g}}]}}", f"step: g, {gate}, {NOOP}")
    for result, goes_on in (({"n": 1}, True), ({"n": 2}, False), ("text", False)):
        stage = Stage(net)
        (ref,) = [ref for ref, asked in stage.open.items() if asked.effect == STEP]
        stage.settle(ref, done(result))
        assert (stage.net["status"] == "success") is goes_on
        assert stage.replays()


def test_code_that_takes_the_context_is_sent_all_of_it() -> None:
    """PB-14: results that no text names are there for code that reads the whole context."""
    code = "tool: {kind: python, code: 'def main(context): return 1'}"
    stage = Stage(book(f"step: a, {WORK}, next: {{arcs: [{{step: b}}]}}", f"step: b, {code}"))
    sent: dict[str, Any] = {}

    def worker(params: dict[str, Any]) -> Any:
        sent[params["step"]] = params["data"]
        return done({"n": 1})

    stage.play(worker)
    assert "a" in sent["b"]["results"]


def test_names_in_layers_are_each_there_once() -> None:
    """PB-20: the first layer decides, the names of all are listed; a step has its data."""
    scope = Scope({"a": 1, "b": 2}, {"b": 3, "c": 4})
    assert (list(scope), len(scope), scope["b"]) == (["a", "b", "c"], 3, 2)
    with pytest.raises(KeyError):
        scope["d"]
    value = StepValue({"n": 1}, {"t": 2})
    assert (value.get("data"), value.get("results"), value.get("x", 9)) == ({"n": 1}, {"t": 2}, 9)


# ---- what is written --------------------------------------------------------------------------


def test_rows_that_change_or_go_are_written_anew() -> None:
    """I2: whatever happens to a map, its bytes are those of writing it from nothing."""
    rows, held = Rows(3), dict[str, None]()
    one, two = {"v": 1}, {"v": 2, "h": canon.hash("x")}
    for given in ({"a": one}, {"a": one, "b": two}, {"a": two, "b": two}, {"b": two}, {}):
        assert rows.item(given, held) == canon.encode_item(given)
    assert list(held) == [canon.hash("x")]


def test_pages_of_loops_name_their_hashes() -> None:
    """I21: only texts among the pages of a loop are names of blobs."""
    found: dict[str, None] = {}
    holds({"pages": [["sha256:a", 3], "odd", [["sha256:b"]]]}, found)
    assert list(found) == ["sha256:a"]
    memory = Memory()
    stage = Stage(book(f"step: a, {WORK}"))
    assert memory.net(stage.net, {}) == canon.encode_item(stage.net)


def test_a_loop_goes_on_alone_only_in_a_net_that_runs() -> None:
    """PB-16: what is ready, or a net that is over, is left to the whole tick."""

    def still(**net: Any) -> bool:
        held: Any = SimpleNamespace(
            net={"phase": "running", "ready": [], "runs": {}, **net}, loops={}
        )
        return _is_still(held, "r1")

    assert [still(), still(phase="final"), still(ready=["t1"])] == [True, False, False]


def test_a_chain_goes_on_alone_only_where_nothing_waits() -> None:
    """PB-16: a join that is still to fire, or an answer for nobody, is left to the whole tick."""

    def followed(**net: Any) -> Any:
        group = {"g0": {"joins": {"j": {"fired": net.pop("fired", True)}}}}
        still = {"phase": "running", "ready": [], "tokens": {}, "runs": {}, "groups": group}
        limits = {"max_tokens": 9, "max_step_runs": 9}
        held: Any = SimpleNamespace(
            net={**still, "counts": {"created": 1}, "ids": {"r": 1}, **net},
            plan=SimpleNamespace(spec={"limits": limits}, follower=lambda _: None),
            loops={},
        )
        came: Any = SimpleNamespace(effect=STEP, status="ok", issuer_ref="r1#1", payload=b"")
        return follow(held, came, canon.decode)

    run = {"step": "a", "open": {"r1#1": {"i": None, "k": 1}}}
    assert followed() is None, "nobody waits for it"
    assert followed(fired=False, runs={"r1": run}) is None
    assert followed(runs={"r1": run}) is None, "its step has none behind it"


def test_results_are_listed_by_their_steps() -> None:
    """PB-20: the names of all steps that have a result, and their number."""
    stage = Stage(book(f"step: a, {NOOP}, next: {{arcs: [{{step: b}}]}}", f"step: b, {NOOP}"))
    rows: Any = _Results(stage.net["results"], None)  # type: ignore[arg-type]  # nothing is read
    assert (sorted(rows), len(rows)) == (["a", "b"], 2)
