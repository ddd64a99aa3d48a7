"""Commands about effects, questions and causes, against a world that has them (K-45, D13)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick.cli.client import live_node
from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tests.cli.runs import Live, environment, tally

APP = """
from tallystick import Bundle, Ctx, Effect, Human, Record, Timer

app = Bundle("shop")


class Placed(Record):
    order_id: str
    what: str


class Charged(Record):
    ref: str


class Charge(Effect[Charged], executor="nobody"):
    token: str


class Order(Record):
    said: str = ""


@app.workflow(key="order_id", effects=[Charge, Human, Timer])
def orders(
    state: Order | None, event: Placed | Charge.Settled | Human.Settled | Timer.Settled, ctx: Ctx
) -> Order | None:
    match event:
        case Placed(order_id=order_id, what="charge"):
            ctx.effect(Charge(token=order_id), key=order_id)
        case Placed(what="ask"):
            ctx.effect(Human(title="Ship it?", body="now", choices=["yes", "no"]))
        case Placed(what="wait"):
            ctx.timer("50ms", corr="t")
        case Placed(what="fail"):
            ctx.fail("shop.refused")
            return Order(said="refused")
        case Human.Ok(value=answer):
            ctx.complete("done")
            return Order(said=answer.choice or "")
        case Timer.Fired():
            ctx.complete("done")
            return Order(said="fired")
        case Charge.Failed(code=code):
            ctx.fail(code)
            return Order(said=code)
    return state or Order()
"""
ORDERS = "shop/orders@1"
SHAPES = {verb.words: verb.shape for verb in VERBS}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("effects")
    (folder / "app.py").write_text(APP)
    node = Live(folder, "--bundle", "app.py")
    try:
        yield node
    finally:
        node.close()


def fits(live: Live, words: str, *rest: str) -> Any:
    value = live.json(*words.split(), *rest)
    assert misfit(SHAPES[words], value) is None
    return value


def place(live: Live, order: str, what: str, *more: str) -> Any:
    body = json.dumps({"order_id": order, "what": what})
    return live.json("send", "shop/Placed@1", body, *more)


def open_intent(live: Live, order: str, *world: str) -> str:
    """The one open intent of an order, once it is there."""

    def look() -> Any:
        rows = live.json("effect", "ls", *world)["items"]
        return next((row["intent"] for row in rows if row["key"] == order), None)

    found: str = live.wait(look)
    return found


@pytest.mark.clause("K-45", "K-23")
def test_an_effect_that_nobody_serves_says_so(live: Live):
    """04 section 5: open, with the reason; doctor and health tell; cancelled by hand it settles."""
    place(live, "c-1", "charge")
    intent = open_intent(live, "c-1")
    why = fits(live, "effect why", intent)
    assert why["reason"]["code"] == "no_executor"
    assert [row["verdict"] for row in why["judged"]] == ["ok"] * 5
    assert fits(live, "effect show", intent)["status"] == "open"
    assert "no_executor" in live.run("effect", "ls").out
    checks = {check["id"]: check for check in live.json("doctor")["checks"]}
    assert (checks["executors"]["level"], checks["executors"]["found"]) == (
        "warn",
        ["shop/Charge@1"],
    )
    told = fits(live, "explain", ORDERS, "c-1")
    assert [each["code"] for each in told["reasons"]]
    assert live.run("effect", "cancel", intent, "--reason", "test").code == 0
    live.wait(lambda: live.json("cell", "show", ORDERS, "c-1")["status"] == "failed")
    again = live.run("effect", "cancel", intent, "--json")
    assert again.code in (1, 2), "what is settled cannot be cancelled"
    assert live.run("effect", "cancel", "--json").problem["code"] == "request.usage"


@pytest.mark.clause("K-45")
def test_a_question_is_answered_by_hand(live: Live):
    """04 section 6: an open ask is listed; an answer completes the order; a second is refused."""
    place(live, "a-1", "ask")
    intent = open_intent(live, "a-1")
    asks = fits(live, "ask ls")["items"]
    assert intent in [row["intent"] for row in asks]
    wrong = live.run("ask", "answer", intent, "--choice", "perhaps", "--json")
    assert wrong.code == 2
    fits(live, "ask answer", intent, "--choice", "yes", "--comment", "go")
    live.wait(lambda: live.json("cell", "show", ORDERS, "a-1")["state"] == {"said": "yes"})
    assert live.run("ask", "answer", intent, "--choice", "no", "--json").code in (1, 2)


@pytest.mark.clause("K-23", "K-09")
def test_a_question_waits_for_a_person(live: Live):
    """D13: explained as such, by the first digits of its hash; a key lets an answer count once."""
    place(live, "a-2", "ask")
    intent = open_intent(live, "a-2")
    short = intent.removeprefix("sha256:")[:10]
    told = fits(live, "explain", short)
    assert ([each["code"] for each in told["reasons"]], told["status"]) == (["person"], "open")
    words = live.run("explain", short)
    assert (words.code, words.err) == (0, "")
    assert "person: waits for a person" in words.out
    assert "capability  ok" in words.out
    assert fits(live, "trace", short)["rows"][0]["intent"] == intent
    assert intent in [node["intent"] for node in fits(live, "graph", short)["nodes"]]
    rows = live.json("effect", "ls")["items"]
    assert [row["why"] for row in rows if row["intent"] == intent] == ["person"]
    url, token = live_node(live.data) or ("", "")
    path = f"{url}/v1/worlds/main/asks/{intent}"
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "answer-1"}
    sent = [
        httpx.post(path, json={"choice": "yes"}, headers=headers, trust_env=False) for _ in "12"
    ]
    assert [each.status_code for each in sent] == [202, 202]
    assert sent[0].json() == sent[1].json()
    assert sent[1].headers["idempotent-replayed"] == "true"
    live.wait(lambda: live.json("cell", "show", ORDERS, "a-2")["state"] == {"said": "yes"})
    over = fits(live, "explain", short)
    assert [each["code"] for each in over["reasons"]] == ["settled_ok"]
    assert live.run("explain", "0" * 12, "--json").problem["code"] == "event.unknown"
    assert live.run("explain", "xyz", "--json").code == 2


@pytest.mark.clause("K-23", "X-22", "X-23")
def test_a_trace_shows_what_an_event_led_to(live: Live):
    """K-23: by event, by sequence and by cell; as JSON and as a picture; graphs in three forms."""
    sent = place(live, "w-1", "wait", "--wait", "30")
    assert sent["quiet"] in (True, False)
    live.wait(lambda: live.json("cell", "show", ORDERS, "w-1")["status"] == "completed")
    by_event = fits(live, "trace", sent["event"])
    assert by_event == fits(live, "trace", str(sent["seq"]))
    steps = [row["step"] for row in by_event["rows"]]
    assert steps[:3] == ["admitted", "ticked", "asked"]
    assert "settled" in steps
    picture = live.run("trace", sent["event"]).out
    assert "▔▔▔ asked sys/timer.set@1" in picture
    assert "▁▁▁ settled" in picture
    line = fits(live, "trace", ORDERS, "w-1")
    assert len(line["ticks"]) == 2
    assert "▁▁▁ sys/timer.set@1" in live.run("trace", ORDERS, "w-1").out
    graph = fits(live, "graph", ORDERS, "w-1")
    assert {edge["how"] for edge in graph["edges"]} >= {"delivers", "asks", "settles"}
    assert live.run("graph", ORDERS, "w-1").out.startswith("flowchart")
    assert live.run("graph", "--format", "dot").out.startswith("digraph")
    nonsense = live.run("trace", "what", "is", "this", "--json")
    assert (nonsense.code, nonsense.problem["code"]) == (2, "request.usage")


@pytest.mark.clause("K-23")
def test_a_world_explains_what_keeps_it_from_resting(live: Live):
    """D13: open work is named, for people too."""
    place(live, "c-2", "charge")
    open_intent(live, "c-2")
    told = fits(live, "explain")
    assert told["quiescent"] is False
    assert "c-2" in live.run("explain").out
    assert live.run("explain", ORDERS, "c-2").out.strip()


def test_run_begins_a_workflow_and_shows_its_cell(live: Live):
    """ND-28: 0 when it rests, 1 when it failed; a workflow that no event begins is bad input."""
    good = fits(live, "run", ORDERS, '{"order_id": "r-1", "what": "wait"}')
    assert good["cell"]["key"] == "r-1"
    failed = live.run("run", ORDERS, '{"order_id": "r-2", "what": "fail"}', "--json")
    assert failed.code == 1
    assert failed.value["cell"]["status"] == "failed"
    assert live.run("run", "shop/none@1", "{}", "--json").problem["code"] == "workflow.unknown"


@pytest.mark.clause("X-08")
def test_a_fork_holds_open_effects_until_they_are_released(live: Live):
    """06 section 11: held in the fork, listed as held, released one by one or all."""
    place(live, "f-1", "charge")
    open_intent(live, "f-1")
    live.json("world", "fork", "--as", "held")
    held = fits(live, "effect ls", "--held", "-w", "held")["items"]
    assert "f-1" in [row["key"] for row in held]
    told = live.json("effect", "release", "--all", "-w", "held")
    assert (len(told["done"]), told["refused"]) == (len(held), [])
    assert live.json("effect", "ls", "--held", "-w", "held")["items"] == []
    same = fits(live, "world diff", "main", "held")
    assert same["items"] == [] or same["same"] is False
    live.json("world", "rm", "held", "--yes")


@pytest.mark.clause("K-45")
def test_a_follower_sees_each_record_once(live: Live):
    """ND-29, in small: `journal tail --follow` goes on with what comes, without gap or repeat."""
    head = live.json("journal", "head")["seq"]
    command = [sys.executable, "-m", "tallystick", "journal", "tail", "--follow", "--json"]
    command += ["--data", str(live.data), "--from", str(head)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert reader.stdout is not None
        seen = [json.loads(reader.stdout.readline())["seq"]]
        for number in range(5):
            place(live, f"t-{number}", "fail")
        last = live.json("journal", "head")["seq"]
        while seen[-1] < last:
            seen.append(json.loads(reader.stdout.readline())["seq"])
        assert seen == list(range(head, seen[-1] + 1))
    finally:
        reader.kill()
        reader.wait()
        assert reader.stdout is not None
        reader.stdout.close()


@pytest.mark.clause("X-07", "X-24")
def test_a_restored_world_runs_nothing_unasked(live: Live, tmp_path: Path):
    """ND-25, in small: open effects are held until released; the new node's key is trusted."""
    place(live, "b-1", "ask")
    intent = open_intent(live, "b-1")
    assert live.run("backup", str(tmp_path / "copy")).code == 0
    data = tmp_path / "again" / ".tally"
    told = tally("restore", str(tmp_path / "copy"), "--into", str(data), "--json").value
    assert told["held"] >= 1
    again = Live(tmp_path / "again", "-w", "main")
    try:
        rows = again.json("effect", "ls", "--held")["items"]
        assert intent in [row["intent"] for row in rows]
        assert {row["hold"]["kind"] for row in rows} == {"restore"}
        kinds = [r["record"]["record"] for r in again.json("journal", "tail")["items"]]
        assert kinds.count("WorldRestored") == 1
        early = again.run("ask", "answer", intent, "--choice", "yes", "--json")
        assert early.code in (1, 2), "what is held is not asked"
        again.json("effect", "release", intent)
        again.wait(lambda: again.run("ask", "answer", intent, "--choice", "yes").code == 0)
        again.wait(lambda: again.json("cell", "show", ORDERS, "b-1")["status"] == "completed")
        assert again.end() == 0
    finally:
        again.close()


def test_every_command_is_tried_somewhere():
    """ND-28: no row of the table is without a test that runs it."""
    tests = Path(__file__).parent.parent
    text = "\n".join(path.read_text("utf-8") for path in sorted(tests.rglob("*.py")))
    spoken = text.replace('", "', " ")
    assert [verb.words for verb in VERBS if verb.words not in spoken] == []
