"""Proposals: a change is one candidate, judged by the rules in force, applied whole or not."""

# tidy: the table of states of a proposal, row by row.
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.kernel.inputs import TakeSnapshot
from tallystick.kernel.proposals import KEPT_MAX, Proposals
from tallystick.kernel.roots import state_root
from tallystick.model import records
from tallystick.model.records import ApplyRefused, Approved, BundleActivate, Proposed, Shadowed
from tallystick.values import canon
from tallystick.values.seal import approval_statement
from tests.kernel.governed import (
    BOB,
    applying,
    approved,
    failing,
    governance,
    lab,
    proposed,
    proposing,
    proving,
    reporting,
    state,
    voting,
)
from tests.rig import WORLD, Rig, check, refused
from tests.worlds import GO, go

GOLDEN = Path(__file__).parent.parent / "golden" / "journals"


@pytest.mark.clause("X-19")
def test_a_proposal_goes_its_way() -> None:
    """AG-16: submitted, shadowed, approved, applied; the activation names all of it."""
    rig = lab(governance=governance())
    ident = proposed(rig)
    assert ident == f"p-{rig.world.seq}"
    assert state(rig, ident) == "submitted"
    rig.do(reporting(rig, ident))
    assert state(rig, ident) == "shadowed"
    rig.do(voting(rig, ident))
    assert state(rig, ident) == "approved"
    vote_seq = rig.world.seq
    before = rig.world.manifest
    assert rig.do(applying(rig, ident)).kind == "activated"
    assert state(rig, ident) == "applied"
    made = rig.records(BundleActivate)[-1]
    (candidate,) = rig.records(Proposed)
    assert (made.proposal, made.from_, made.to) == (ident, before, candidate.manifest)
    assert (made.bundle, made.mode, made.principal) == (candidate.bundle, "quiescent", "carol")
    assert made.approved_by == [{"principal": "bob", "seq": vote_seq}]
    assert made.report_hash == rig.records(Shadowed)[0].report_hash
    assert rig.world.active.catalogue.limits.effects_max == 3
    check(rig)


@pytest.mark.clause("X-19")
def test_the_second_of_two_is_stale() -> None:
    """AG-16: two proposals on one base: once one is applied the other is stale everywhere, and
    nothing of it is applied.
    """
    rig = lab(governance=governance())
    first, second, third = approved(rig, 3), approved(rig, 4), proposed(rig, number=5)
    rig.do(applying(rig, first))
    assert [state(rig, one) for one in (first, second, third)] == ["applied", "stale", "stale"]
    for given in (reporting(rig, third), proving(rig, third), voting(rig, third)):
        assert refused(rig, given).code == "gov.stale_base"
    before = rig.state_root()
    answer = rig.do(applying(rig, second))
    assert (answer.kind, answer.detail["code"]) == ("refused", "gov.stale_base")
    assert rig.state_root() == before
    assert rig.records(ApplyRefused)[-1].proposal == second
    assert rig.world.active.catalogue.limits.effects_max == 3
    assert refused(rig, proposing(rig, base=b"1" * 32)).code == "gov.stale_base"
    rig.do(voting(rig, third, word="reject"))  # tidying up stays possible
    assert state(rig, third) == "rejected"
    check(rig)


@pytest.mark.clause("X-19")
def test_a_new_shadow_voids_approvals() -> None:
    """Who approved has approved one report; another needs another yes, and that is on record."""
    rig = lab(governance=governance(approvals=2))
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    rig.do(voting(rig, ident, "alice"))
    rig.do(voting(rig, ident, "bob"))
    assert state(rig, ident) == "approved"
    rig.do(reporting(rig, ident, "another"))
    assert state(rig, ident) == "shadowed"
    assert rig.records(Shadowed)[-1].voided == ["alice", "bob"]
    old = rig.records(Shadowed)[0].report_hash
    assert refused(rig, voting(rig, ident, report_hash=old)).code == "gov.report_changed"
    rig.do(voting(rig, ident, "bob"))
    assert refused(rig, applying(rig, ident)).code == "gov.not_approved"
    check(rig)


def four_eyes(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    return voting(rig, ident, "alice")


def twice(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    rig.do(voting(rig, ident, "bob"))
    return voting(rig, ident, "bob")


def one_of_two(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    rig.do(voting(rig, ident, "bob"))
    return applying(rig, ident)


def incomplete(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident, complete=False))
    return voting(rig, ident)


def unproved(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    return voting(rig, ident)


def over(rig: Rig, *inputs: Callable[[Rig, str], Any]) -> Any:
    ident = approved(rig)
    for make in inputs[:-1]:
        rig.do(make(rig, ident))
    return inputs[-1](rig, ident)


def bad_seal(rig: Rig) -> Any:
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    return voting(rig, ident, seal=sealed(rig, ident, decision="reject"))


def broken(rig: Rig) -> Any:
    given = proposing(rig)
    lost = {digest: data for digest, data in given.blobs.items() if digest != given.manifest}
    return given._replace(blobs=lost)


Make = Callable[[Rig], Any]
REFUSED: dict[str, tuple[dict[str, Any], Make, str]] = {
    "four eyes, the author": ({"author_may_approve": False}, four_eyes, "gov.author_may_not"),
    "four eyes, one voter": ({"approvals": 2}, twice, "gov.voted_already"),
    "four eyes, one vote": ({"approvals": 2}, one_of_two, "gov.not_approved"),
    "no shadow": ({}, lambda r: voting(r, proposed(r)), "gov.needs_shadow"),
    "an incomplete shadow": ({}, incomplete, "gov.needs_shadow"),
    "no proof": ({"require": ["shadow", "prove"]}, unproved, "gov.needs_prove"),
    "no approval": ({}, lambda r: applying(r, proposed(r)), "gov.not_approved"),
    "no seal": ({"signed": True}, unproved, "gov.unsigned"),
    "a seal of something else": ({}, bad_seal, "gov.bad_seal"),
    "no such proposal": ({}, lambda r: voting(r, "p-9"), "gov.unknown_proposal"),
    "no decision": ({}, lambda r: voting(r, proposed(r), word="maybe"), "gov.bad_decision"),
    "no change": (
        {},
        lambda r: proposing(r)._replace(manifest=r.world.manifest),
        "gov.no_change",
    ),
    "a bundle with a hole": ({}, broken, "bundle.incomplete"),
    "who may only read, proposing": ({}, lambda r: proposing(r, "eve"), "auth.missing_scope"),
    "a stranger, approving": (
        {},
        lambda r: voting(r, proposed(r), "mallory"),
        "auth.missing_scope",
    ),
    "who may only read, applying": (
        {},
        lambda r: applying(r, approved(r), "eve"),
        "auth.missing_scope",
    ),
    "a workflow that nobody listed": (
        {},
        lambda r: proposing(r, "workflow:t/lab@1"),
        "auth.missing_scope",
    ),
    "applied already": ({}, lambda r: over(r, applying, applying), "gov.wrong_state"),
    "rejected": (
        {},
        lambda r: over(r, lambda w, p: voting(w, p, word="reject"), applying),
        "gov.wrong_state",
    ),
    "failed": ({}, lambda r: over(r, failing, applying), "gov.wrong_state"),
    "failed, to be shadowed": ({}, lambda r: over(r, failing, reporting), "gov.wrong_state"),
    "a plan where none may be": (
        {"beyond_quiescence": False},
        lambda r: applying(r, approved(r), plan={}),
        "gov.quiescence_only",
    ),
}


@pytest.mark.clause("X-19")
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_rules_refuse(name: str) -> None:
    """AG-17: what the rules in force do not allow is refused with its code; no root moves."""
    rules, make, code = REFUSED[name]
    rig = lab(governance=governance(**rules))
    given = make(rig)
    assert refused(rig, given).code == code
    check(rig)


@pytest.mark.clause("X-19")
def test_rules_of_a_proposal_do_not_judge_it() -> None:
    """AG-17: a patch that makes the rules weaker is judged by those in force, and binds later."""
    rig = lab(governance=governance(approvals=2, author_may_approve=False))
    weak = {"governance": governance(approvals=1)}
    ident = proposed(rig, sections=weak)
    rig.do(reporting(rig, ident))
    assert refused(rig, voting(rig, ident, "alice")).code == "gov.author_may_not"
    rig.do(voting(rig, ident, "bob"))
    assert refused(rig, applying(rig, ident)).code == "gov.not_approved"
    rig.do(voting(rig, ident, "carol"))
    rig.do(applying(rig, ident))
    again = proposed(rig, number=5, sections=weak)
    rig.do(reporting(rig, again))
    rig.do(voting(rig, again, "alice"))
    assert state(rig, again) == "approved"
    check(rig)


def sealed(rig: Rig, ident: str, **changed: Any) -> dict[str, Any]:
    """Bob's seal over a decision."""
    found = rig.world.proposals.get(ident)
    assert found is not None
    report = None if found.report is None else canon.text_of(found.report)
    said: dict[str, Any] = {
        "world": WORLD,
        "proposal": ident,
        "bundle": canon.text_of(found.bundle),
        "report_hash": report,
        "decision": "approve",
        "principal": "bob",
        "at_ns": 7,
        **changed,
    }
    return {**BOB.sign(approval_statement(**said)), "at_ns": said["at_ns"]}


@pytest.mark.clause("X-19")
def test_sealed_decisions() -> None:
    """Under `signed` a decision carries the seal of the principal over bundle and report; each
    field that is another breaks it.
    """
    rig = lab(governance=governance(signed=True))
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    for changed in (
        {"world": "elsewhere"},
        {"proposal": "p-1"},
        {"bundle": canon.hash({})},
        {"report_hash": canon.hash({})},
        {"decision": "reject"},
        {"principal": "carol"},
    ):
        given = voting(rig, ident, seal=sealed(rig, ident, **changed))
        assert refused(rig, given).code == "gov.bad_seal", changed
    late = {**sealed(rig, ident), "at_ns": 8}
    assert refused(rig, voting(rig, ident, seal=late)).code == "gov.bad_seal"
    keyless = voting(rig, ident, "carol", seal=sealed(rig, ident, principal="carol"))
    assert refused(rig, keyless).code == "gov.bad_seal"
    rig.do(voting(rig, ident, seal=sealed(rig, ident)))
    assert rig.records(Approved)[0].seal["at_ns"] == 7
    check(rig)


@pytest.mark.clause("X-19")
def test_without_principals_the_tokens_decide() -> None:
    """A manifest that lists nobody leaves governance to the node's tokens, except to workflows."""
    rig = lab()
    ident = approved(rig)
    assert rig.do(applying(rig, ident, "anybody")).kind == "activated"
    given = proposing(rig, "workflow:t/lab@1", 5)
    assert refused(rig, given).code == "auth.missing_scope"


@pytest.mark.clause("X-19")
def test_a_rule_without_approvals() -> None:
    """`approvals: 0` and `require: []`: a proposal may be applied as it comes."""
    rig = lab(governance=governance(approvals=0, require=[]))
    ident = proposed(rig)
    assert state(rig, ident) == "approved"
    assert rig.do(applying(rig, ident)).kind == "activated"
    check(rig)


@pytest.mark.clause("K-20", "X-19")
def test_what_is_open_refuses_and_the_proposal_stays() -> None:
    """AG-20: a refused apply is evidence: every blocker is named, no state moves, and the same
    proposal is applied once the world is quiet.
    """
    rig = lab(governance=governance())
    ident = approved(rig)
    rig.send(GO, go("a", "ask"))
    before = rig.state_root()
    answer = rig.do(applying(rig, ident))
    assert [kind for kind, _ in answer.detail["blockers"]] == ["cell_open", "intent_open"]
    assert (answer.detail["code"], answer.detail["count"]) == ("gov.not_quiescent", 2)
    assert rig.state_root() == before
    assert state(rig, ident) == "approved"
    (job,) = rig.jobs.all
    rig.settle(job, {"a": "yes"})
    assert rig.do(applying(rig, ident)).kind == "activated"
    check(rig)


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2")
def test_proposals_are_in_the_root_and_in_snapshots() -> None:
    """Governance state is in the root; a snapshot and its tail give the same proposals."""
    rig = lab(governance=governance())
    empty = rig.state_root()
    first = approved(rig)
    second = proposed(rig, number=7)
    rig.do(failing(rig, second))
    assert rig.state_root() != empty
    rig.do(TakeSnapshot(rig.clock.sample()))
    third = proposed(rig, number=8)
    other = rig.reopened()
    assert list(other.world.proposals) == list(rig.world.proposals)
    assert [each.id for each in other.world.proposals] == [first, second, third]
    assert state_root(other.world) == rig.state_root()
    found = other.world.proposals.get(second)
    assert found is not None
    assert (found.end, found.code) == ("failed", "module.no_entrypoint")
    check(rig)


def test_a_bounded_number_is_kept() -> None:
    """The oldest that is over makes room; those that wait never do."""
    many = Proposals()
    stamp = records.Stamp(1, 1, b"e")
    for number in range(KEPT_MAX + 2):
        digest = bytes(32)
        row = (f"p-{number}", digest, digest, digest, digest, {}, "alice", stamp)
        many.proposed(Proposed(*row))
        if number == 1:
            many.ended("p-1", "rejected")
    assert len(many) == KEPT_MAX + 1
    assert many.get("p-1") is None
    assert many.get("p-0") is not None
    assert many.full


def test_replay_finds_a_change_that_was_not_allowed() -> None:
    """D2: a recorded approval that the rules of its time refuse is found with its sequence."""
    rig = lab(governance=governance(approvals=1))
    ident = proposed(rig)
    rig.do(reporting(rig, ident))
    rig.do(voting(rig, ident))
    strict = lab(governance=governance(author_may_approve=False))
    assert strict.verify().first is None
    given = voting(strict, proposed(strict), "alice")
    strict.do(reporting(strict, given.proposal))
    forge(strict, Approved(given.proposal, bytes(32), "alice", strict_stamp(strict)))
    first = strict.verify().first
    assert first is not None
    assert (first.expected, first.seq) == ("Approved", strict.world.seq)


def strict_stamp(rig: Rig) -> records.Stamp:
    sample = rig.clock.sample()
    return records.Stamp(sample.now_ns, rig.world.logical_ns + 1, sample.entropy)


def forge(rig: Rig, record: Any) -> None:
    """Write a record that no decision made."""
    from tallystick.kernel.draft import Answer, Frame

    rig.driver.stage(Frame((record,), (), (), {}, Answer("forged")))
    rig.driver.flush()


def test_an_older_refusal_is_read() -> None:
    """MO-23: `ApplyRefused` of the first release has no proposal."""
    golden = json.loads((GOLDEN / "records.json").read_text("utf-8"))["ApplyRefused"]
    raw = canon.decode(canon.PREFIX + bytes.fromhex(golden))
    del raw["proposal"]
    made = records.load_record(raw)
    assert isinstance(made, ApplyRefused)
    assert made.proposal is None
