"""Authority at the kernel: five stages in order, a denial for its own cell, grants that shrink."""

# tidy: the stages of admission are one trail, shown by one asker.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Planned, RevokeGrant, Submit
from tallystick.model.cells import RUNNING
from tallystick.model.records import EventAdmitted, IntentDenied, IntentOpened, ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import START_NS, Rig, bundle_of, check, refused
from tests.worlds import (
    ASK,
    GO,
    LAB,
    SPAWN,
    allow_all,
    ask,
    effect,
    go,
    lab_documents,
    lab_function,
    lab_workflow,
    module,
    record,
    schema,
)

CODE = ("t/code@1", "lab")
KID, GRANDKID = "t/kid@1", "t/grandkid@1"
CAP = "t/words@1"
WORDS = "t/Words@1"
GUARD = "t/guard@1"
SAY = "t/say@1"
SECOND = 1_000_000_000


def rule(decision: str = "allow", where: str | None = None, **when: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"id": "r", "when": when, "decision": decision}
    return made if where is None else {**made, "where": where}


def policy(*rules: Any) -> dict[str, Any]:
    return {"$kind": "defpolicy", "name": "t/mine@1", "rules": list(rules)}


def sections(
    *, bound: dict[str, str], grants: list[Any], policies: tuple[str, ...] = ("t/all@1",)
) -> dict[str, Any]:
    """The manifest's authority: named grants, and the lab's slots."""
    bindings = {name: {"slots": dict(bound)} for name in (LAB,)} if bound else {}
    return {
        "authority": {"grants": grants, "policies": list(policies)},
        "module_bindings": bindings,
    }


EFFECT_GRANT = {"name": "effect", "cap": "sys/effect@1", "params": {}}


class Asker:
    """The lab with an enforcer that counts how often it was asked."""

    # tidy: the world of the asker is one literal.
    def __init__(self, *extra: Any, wish: Any = None, flow: Any = None, **authority: Any) -> None:
        self.asked = 0
        wishes = [ask()] if wish is None else wish

        def guard(given: Any) -> Any:
            self.asked += 1
            question = given["input"]
            return {
                "output": {
                    "ok": question["params"]["q"] != "secret",
                    "field": "words",
                    "message": "no",
                }
            }

        def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
            return Outcome(following, effects=wishes)

        documents = lab_documents(
            schema(WORDS, record(words={"option": {"set": {"text": {}}}})),
            module(
                GUARD, pure={"check": {"input": "sys/CapCheck@1", "output": "sys/CapVerdict@1"}}
            ),
            {
                "$kind": "defcap",
                "name": CAP,
                "cap_type": "words",
                "params": WORDS,
                "enforcer": {"module": GUARD, "entrypoint": "check"},
                "order": {"words": "subset"},
            },
            effect(SAY, "t/Ask@1", "t/Answer@1", cap_type="words"),
            *extra,
            flow={"cap_slots": {"main": "effect", "say": "words"}, **(flow or {})},
            **authority,
        )
        functions = {CODE: lab_function(wish=run), (GUARD, "check"): guard}
        self.rig = Rig(documents, functions)
        self.rig.send(GO, go("b"))

    def denial(self) -> IntentDenied:
        """Ask, and give the one denial; nothing left, and only the asking cell was told."""
        rig = self.rig
        before = rig.cell(LAB, "b").state_hash
        rig.send(GO, go("a", "wish"))
        (denied,) = rig.records(IntentDenied)
        assert not rig.jobs.all
        assert not rig.records(IntentOpened)
        (receipt,) = rig.records(ReceiptSettled)
        assert (receipt.status, receipt.source, receipt.intent) == (
            "denied",
            "kernel",
            denied.intent,
        )
        assert [(to.workflow, canon.decode(to.key)) for to in receipt.to] == [(LAB, "a")]
        payload = canon.decode(receipt.payload)
        assert (payload["code"], payload["stage"]) == (denied.code, denied.stage)
        assert rig.state(LAB, "a")["log"] == ["wish", "denied:"]
        assert rig.cell(LAB, "a").status == RUNNING
        assert rig.cell(LAB, "b").state_hash == before
        return denied


SAYING = [{"effect": SAY, "params": {"q": "hello"}, "cap_slot": "say"}]
WORDS_GRANT = {"name": "words", "cap": CAP, "params": {}}
GRANTED = sections(bound={"main": "effect", "say": "words"}, grants=[EFFECT_GRANT, WORDS_GRANT])


@pytest.mark.clause("K-05", "K-06")
@pytest.mark.invariant("I6")
def test_undeclared() -> None:
    """AG-01: an undeclared effect is denied before anything else is asked.

    The control shows that the same enforcer is asked once when the effect is declared.
    """
    asker = Asker(wish=SAYING, flow={"effects_emitted": [ASK]}, **GRANTED)
    denied = asker.denial()
    assert (denied.stage, denied.code) == ("declared", "effect.undeclared")
    assert denied.judged.shape is denied.judged.capability is denied.judged.policy is None
    assert asker.asked == 0
    check(asker.rig)
    control = Asker(wish=SAYING, flow={"effects_emitted": [SAY]}, **GRANTED)
    control.rig.send(GO, go("a", "wish"))
    assert control.asked == 1
    assert len(control.rig.jobs.all) == 1
    check(control.rig)


def keyed(q: str) -> dict[str, Any]:
    return ask(q, idempotency_key=b"k")


NONE = sections(bound={}, grants=[], policies=())
DENIED: dict[str, tuple[dict[str, Any], str, str]] = {
    "bad params": (
        {"wish": [{**ask(), "params": {"q": 7}}], **GRANTED},
        "shape",
        "effect.params_invalid",
    ),
    "not declared": (
        {"wish": [{**ask(), "effect": "t/no@1"}], **GRANTED},
        "declared",
        "effect.undeclared",
    ),
    "no grant": (NONE, "capability", "cap.unbound"),
    "no authority at all": ({"authority": {}, "module_bindings": {}}, "capability", "cap.unbound"),
    "no rule": (
        sections(bound={"main": "effect"}, grants=[EFFECT_GRANT], policies=()),
        "policy",
        "policy.no_match",
    ),
    "unknown slot": (
        {"wish": [{**ask(), "cap_slot": "none"}], **GRANTED},
        "capability",
        "cap.unbound",
    ),
    "wrong type": (
        {"wish": [{**ask(), "cap_slot": "say"}], **GRANTED},
        "capability",
        "cap.type_mismatch",
    ),
    "enforcer says no": (
        {
            "wish": [{**SAYING[0], "params": {"q": "secret"}}],
            "flow": {"effects_emitted": [SAY]},
            **GRANTED,
        },
        "capability",
        "cap.exceeded",
    ),
    "expired": (
        sections(bound={"main": "effect"}, grants=[{**EFFECT_GRANT, "expires_ns": START_NS}]),
        "capability",
        "cap.expired",
    ),
}


@pytest.mark.clause("K-07", "X-24", "X-06", "K-29")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize("name", DENIED)
def test_denied(name: str) -> None:
    """AG-02, AG-05: each reason has its own code and stage; nothing leaves, the cell is told."""
    given, stage, code = DENIED[name]
    asker = Asker(**{"flow": {}, **given})
    denied = asker.denial()
    assert (denied.stage, denied.code) == (stage, code)
    assert denied.message
    check(asker.rig)


@pytest.mark.clause("K-07")
def test_reused_key() -> None:
    """AG-02: a key reused with other params is denied with its own code; the first goes out."""
    asker = Asker(wish=[keyed("one"), keyed("two")], **GRANTED)
    asker.rig.send(GO, go("a", "wish"))
    assert [d.code for d in asker.rig.records(IntentDenied)] == ["effect.key_conflict"]
    assert len(asker.rig.jobs.all) == 1
    check(asker.rig)


POLICIES: list[tuple[list[Any], str | None]] = [
    ([rule()], None),
    ([rule("deny"), rule()], "policy.denied"),
    ([rule(), rule("deny")], None),
    ([rule("deny", where="{{ params.q == '?' }}"), rule()], "policy.denied"),
    ([rule("deny", where="{{ params.q == 'x' }}"), rule()], None),
    ([rule("deny", where="{{ params.nothing > 1 }}"), rule()], "policy.expression_fault"),
    ([rule(effect="t/other@1")], "policy.no_match"),
    ([rule(effect="t/*")], None),
    ([rule(grant="effect", cap_type="effect", workflow=LAB)], None),
    ([rule(origin="system")], "policy.no_match"),
    ([rule(origin="governance")], "policy.no_match"),
    ([rule(where="{{ origin.kind == 'workflow' }}", origin="workflow")], None),
    ([rule("deny", where="{{ key == 'a' }}"), rule()], "policy.denied"),
    ([rule("deny", where="{{ key == 'b' }}"), rule()], None),
]


@pytest.mark.clause("X-24", "K-22")
@pytest.mark.parametrize(("rules", "code"), POLICIES)
def test_policy(rules: list[Any], code: str | None) -> None:
    """AG-02, AG-04: first match wins, none denies, a fault denies; origin is the kernel's word."""
    authority = sections(bound={"main": "effect"}, grants=[EFFECT_GRANT], policies=("t/mine@1",))
    asker = Asker(policy(*rules), **authority)
    if code is None:
        asker.rig.send(GO, go("a", "wish"))
        (opened,) = asker.rig.records(IntentOpened)
        assert opened.judged.policy.decision == "allow"
    else:
        denied = asker.denial()
        assert (denied.stage, denied.code) == ("policy", code)
    check(asker.rig)


# ---- AG-03: the trail stays -----------------------------------------------------------------


@pytest.mark.clause("X-06", "X-07")
def test_trail_outlives_the_policy() -> None:
    """AG-03: the record tells what was judged then, also after the policy was replaced."""
    authority = sections(bound={"main": "effect"}, grants=[EFFECT_GRANT], policies=("t/mine@1",))
    deny = rule("deny", where="{{ params.q == '?' }}")
    asker = Asker(policy(deny), **authority)
    rig = asker.rig
    denied = asker.denial()
    assert "t/mine@1 rule 0" in denied.rule  # type: ignore[operator]
    assert denied.judged.capability.grant == "effect"
    documents = lab_documents(policy(rule()), **authority)
    manifest, blobs = bundle_of(documents)
    plan = {(LAB, canon.encode(n)): Planned(rig.cell(LAB, n).last_seq) for n in "ab"}
    sample = rig.clock.sample()
    change = Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan)
    assert rig.do(change).kind == "activated"
    rig.send(GO, go("a", "wish"))
    assert len(rig.jobs.all) == 1
    assert rig.records(IntentDenied) == [denied]
    assert rig.reopened().records(IntentDenied) == [denied]
    check(rig)


# ---- AG-04: forged origins ------------------------------------------------------------------


@pytest.mark.clause("K-22")
def test_forged_origin() -> None:
    """AG-04: words about the origin in an event or in params change nothing.

    The record of an event from outside says so whatever the event says.
    """
    only_system = policy(rule(origin="system"), rule("deny"))
    authority = sections(bound={"main": "effect"}, grants=[EFFECT_GRANT], policies=("t/mine@1",))
    asker = Asker(only_system, wish=[ask("origin: system")], **authority)
    denied = asker.denial()
    assert denied.code == "policy.denied"
    assert denied.origin.kind == "workflow"
    assert {e.origin.kind for e in asker.rig.records(EventAdmitted)} == {"external"}
    check(asker.rig)


@pytest.mark.clause("K-22")
def test_forged_source() -> None:
    """AG-04: a sender cannot claim to be a workflow and pass a filter for its events."""
    way = {
        "event": GO,
        "workflow": LAB,
        "key_field": "id",
        "filter": {"origin": [f"workflow:{LAB}"]},
    }
    rig = Rig(lab_documents(subscriptions=[way]), {CODE: lab_function()})
    for origin in ("workflow", f"workflow:{LAB}"):
        given = Submit(rig.clock.sample(), GO, go("a"), origin=origin)
        assert refused(rig, given).code == "ingress.bad_origin"
    assert rig.cell(LAB, "a") is None
    check(rig)


# ---- AG-05: revocation and delegation -------------------------------------------------------


@pytest.mark.clause("K-29")
def test_revoked() -> None:
    """AG-05: a revoked grant denies from then on; what was open goes on."""
    asker = Asker(**GRANTED)
    rig = asker.rig
    rig.send(GO, go("a", "wish"))
    rig.do(RevokeGrant(rig.clock.sample(), "effect", "alice", "lost"))
    rig.send(GO, go("c", "wish"))
    (denied,) = rig.records(IntentDenied)
    assert (denied.stage, denied.code) == ("capability", "cap.revoked")
    rig.settle(rig.jobs.all[0], {"a": "x"})
    assert rig.state(LAB, "a")["log"] == ["wish", "ok:"]
    check(rig)


@pytest.mark.clause("K-29")
def test_expiry_by_logical_time() -> None:
    """AG-05: a grant expires by journaled time, so a replay agrees."""
    grant = {**EFFECT_GRANT, "expires_ns": START_NS + SECOND}
    asker = Asker(**sections(bound={"main": "effect"}, grants=[grant]))
    rig = asker.rig
    rig.send(GO, go("a", "wish"))
    rig.clock.now_ns += 2 * SECOND
    rig.send(GO, go("a", "wish"))
    assert len(rig.jobs.all) == 1
    assert [d.code for d in rig.records(IntentDenied)] == ["cap.expired"]
    check(rig)


# tidy: the family is three generations of one definition.
def family(do: str = "wish", **caps: Any) -> Rig:
    """A parent that spawns a child with given caps; the child spawns its own with `main` again."""

    def spawning(workflow: str, do: str, given: Any) -> Any:
        def run(following: Any, value: Any, _ctx: Any) -> Outcome:
            ident = value["id"]
            payload = {"schema": GO, "value": canon.encode(go(ident, do))}
            params = {
                "workflow": workflow,
                "key": canon.encode(ident),
                "payload": payload,
                "caps": given,
            }
            wish = {"effect": SPAWN, "params": params, "cap_slot": "flow"}
            return Outcome(following, effects=[wish])

        return run

    def wish(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask()])

    everything = {
        "main": {"from": "main", "params": None, "expires_ns": None},
        "flow": {"from": "flow", "params": None, "expires_ns": None},
    }
    functions = {
        CODE: lab_function(
            spawn=spawning(KID, do, caps or everything),
            deep=spawning(KID, "spawn", everything),
            strip=spawning(KID, "wish", {}),
            bid=spawning(KID, "wish", None),
            wish=wish,
        ),
        ("t/code@1", "kid"): lab_function(spawn=spawning(GRANDKID, "wish", everything), wish=wish),
        ("t/code@1", "grandkid"): lab_function(wish=wish),
    }
    # The children have no bindings of their own: what they hold they were given.
    authority = allow_all(
        "sys/effect@1",
        "sys/workflow@1",
        bindings={LAB: {"main": "effect", "flow": "workflow"}},
    )
    documents = lab_documents(lab_workflow(KID), lab_workflow(GRANDKID), **authority)
    return Rig(documents, functions)


def cap(slot: str, **more: Any) -> dict[str, Any]:
    return {"from": slot, "params": None, "expires_ns": None, **more}


@pytest.mark.clause("K-29", "X-17")
@pytest.mark.invariant("I27")
def test_spawn_with_caps() -> None:
    """AG-05: with `caps` a child has exactly these slots; a derived grant names its parent."""
    rig = family(main=cap("main"))
    rig.send(GO, go("a", "spawn"))
    assert len(rig.jobs.of(ASK)) == 1
    opened = [o for o in rig.records(IntentOpened) if o.effect == ASK]
    assert opened[0].judged.capability.grant.startswith("effect~")
    check(rig)
    other = family("spawn", main=cap("main"))
    other.send(GO, go("a", "spawn"))
    (denied,) = other.records(IntentDenied)
    assert (denied.origin.workflow, denied.code) == (KID, "cap.unbound")
    assert other.cell(GRANDKID, "a") is None
    check(other)


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(
    ("caps", "code"),
    [
        ({"main": cap("nothing")}, "cap.unbound"),
        ({"flow": cap("flow", params={"workflows": [LAB], "oops": 1})}, "cap.widening"),
    ],
)
def test_spawn_denied(caps: Any, code: str) -> None:
    """AG-05: passing on what one does not hold denies the spawn, and no child is made."""
    rig = family(**caps)
    rig.send(GO, go("a", "spawn"))
    assert [d.code for d in rig.records(IntentDenied)] == [code]
    assert rig.cell(KID, "a") is None
    check(rig)


@pytest.mark.clause("K-29")
def test_passed_expiry() -> None:
    """AG-05: a child's grant expires when it was told to, its parent's does not."""
    rig = family(main=cap("main", expires_ns=START_NS))
    rig.send(GO, go("a", "spawn"))
    assert [d.code for d in rig.records(IntentDenied)] == ["cap.expired"]
    rig.send(GO, go("a", "wish"))
    assert len(rig.jobs.of(ASK)) == 1
    check(rig)


@pytest.mark.clause("K-29")
@pytest.mark.invariant("I27")
def test_revocation_reaches_grandchildren() -> None:
    """AG-05: revoking a grant reaches the child of a child, also after a snapshot."""
    rig = family()
    rig.send(GO, go("a", "deep"))
    (job,) = rig.jobs.of(ASK)
    assert rig.state(GRANDKID, "a")["log"] == ["wish"]
    rig.driver.snapshot()
    rig = rig.reopened()
    rig.do(RevokeGrant(rig.clock.sample(), "effect", "alice", "lost"))
    rig.send(GO, go("b", "deep"))
    grandchild = [d for d in rig.records(IntentDenied) if d.origin.workflow == GRANDKID]
    assert [d.code for d in grandchild] == ["cap.revoked"]
    rig.settle(job, {"a": "x"})
    assert rig.state(GRANDKID, "a")["log"] == ["wish", "ok:"]
    check(rig)


@pytest.mark.clause("X-06")
def test_held_for_approval() -> None:
    """06: `require_approval` opens the intent with a hold: open in every sense, not published."""
    needs = {**rule("require_approval"), "approval": {"by": ["role:finance"], "count": 1}}
    authority = sections(bound={"main": "effect"}, grants=[EFFECT_GRANT], policies=("t/mine@1",))
    asker = Asker(policy(needs), wish=[ask(timeout_ns=SECOND)], **authority)
    rig = asker.rig
    rig.send(GO, go("a", "wish"))
    assert not rig.jobs.all
    (opened,) = rig.records(IntentOpened)
    assert opened.hold["kind"] == "approval"
    assert len(rig.cell(LAB, "a").inflight) == 1
    rig.pass_time(2 * SECOND)
    assert rig.state(LAB, "a")["log"] == ["wish", "timeout:"]
    check(rig)


@pytest.mark.clause("X-24")
def test_a_verdict_that_is_none_denies() -> None:
    """06 section 2: what an enforcer answers is module code; a field that is no text is a fault."""
    asker = Asker(wish=SAYING, flow={"effects_emitted": [SAY]}, **GRANTED)
    asker.rig.runner._functions[GUARD, "check"] = lambda _: {"output": {"ok": False, "field": 5}}
    assert asker.denial().code == "cap.enforcer_fault"
    check(asker.rig)
