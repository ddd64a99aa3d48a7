"""Grants of tools: minted with the request, on record, and revoked for all that descends."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.kernel.inputs import RevokeGrant
from tallystick.model.records import (
    EventAdmitted,
    GrantMinted,
    IntentDenied,
    ReceiptSettled,
    Record,
)
from tallystick.values import canon
from tallystick.views.executions import execution_show
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import done
from tests.playbooks.test_children import CHILD, PARENT, rig_with
from tests.rig import Rig, check

LOOP = "loop: {in: [1, 2, 3, 4], iterator: i, spec: {mode: %s, max_in_flight: 2}}"
TEXT = HEAD + "workflow:\n  - {step: a, %s, tool: {kind: http, url: 'http://127.0.0.1:1/'}}\n"


def revoke(rig: Rig, name: str, *, cancel_open: bool = False) -> None:
    """Revoke a grant, and all that follows from it."""
    rig.do(RevokeGrant(rig.clock.sample(), name, "bob", "misused", cancel_open))
    rig.run()


def of_type(rig: Rig, kind: type[Record]) -> list[Any]:
    return [record for record in rig.records() if isinstance(record, kind)]


@pytest.mark.clause("N-03", "X-24", "K-29")
def test_a_request_mints_its_grants_on_record() -> None:
    """PB-22: the frame of the request holds what was granted, to whom and by whom; so does `show`.

    The job gets the params of its grant, and a world that is opened anew grants the same.
    """
    rig = PlayRig()
    rig.request(TEXT % (LOOP % "sequential"), grants={"http": {"hosts": ["h"]}, "shell": {}})
    kinds = [type(record) for record in rig.records()]
    assert kinds[kinds.index(EventAdmitted) :][:3] == [EventAdmitted, GrantMinted, GrantMinted]
    http, shell = of_type(rig, GrantMinted)
    assert (http.name, http.slot, http.cap) == ("tool.http@e1", "tool.http", "sys/http.out@1")
    assert (http.params, http.principal) == ({"hosts": ["h"]}, "ana")
    assert (shell.params, canon.decode(shell.key)) == ({}, "e1")
    (job,) = rig.jobs.all
    assert job.granted == {"http": {"hosts": ["h"]}, "shell": {}}
    shown = [(row["name"], row["params"]) for row in execution_show(rig.world, "e1")["grants"]]
    assert shown == [("tool.http@e1", {"hosts": ["h"]}), ("tool.shell@e1", {})]
    again = rig.reopened()
    again.settle(job, done())
    assert again.jobs.all[-1].granted == job.granted
    assert again.verify().first is None
    check(again)


@pytest.mark.clause("X-24", "K-29")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("cancel", [False, True])
def test_revoking_ends_the_tools_of_a_running_execution(mode: str, cancel: bool) -> None:
    """PB-22: after a revocation no further tool starts; what is out goes on, or is cancelled."""
    rig = PlayRig()
    rig.request(TEXT % (LOOP % mode), grants={"http": {}})
    begun = len(rig.jobs.all)
    job = rig.jobs.all[0]
    revoke(rig, "tool.http@e1", cancel_open=cancel)
    if cancel:
        settled = [record.status for record in of_type(rig, ReceiptSettled)]
        assert settled[0] == "cancelled"
        (row,) = rig.net()["failures"]
        assert row["code"] == "cap.revoked"
    else:
        rig.settle(job, done())
        (denied,) = of_type(rig, IntentDenied)
        assert (denied.code, denied.path) == ("cap.revoked", "tool.http@e1")
        (row,) = rig.net()["failures"]
        assert (row["kind"], row["code"]) == ("denied", "cap.revoked")
    assert rig.net()["status"] == "failed"
    assert len(rig.jobs.all) == begun
    assert execution_show(rig.world, "e1")["grants"][0]["revoked"] == "misused"
    rig.request(TEXT % (LOOP % mode), name="e2", grants={"http": {}})
    assert len(rig.jobs.all) > begun
    assert rig.verify().first is None


@pytest.mark.clause("X-17", "X-24")
@pytest.mark.parametrize("revoked", [False, True])
def test_a_child_lives_by_the_grants_of_its_parent(revoked: bool) -> None:
    """PB-24, PB-22: grants are passed on to a child; revoking the parent's reaches it."""
    rig = rig_with(CHILD.replace("{kind: noop}", "{kind: python, code: y}"))
    rig.request(PARENT % ("", "7"))
    (first,) = rig.jobs.all
    assert first.granted == {"python": {}}
    if revoked:
        revoke(rig, "tool.python@e1")
    rig.settle(first, done(1))
    if not revoked:
        rig.settle(rig.jobs.all[-1], done(2))
    child = rig.net("e1.r1.2")
    assert child["status"] == ("failed" if revoked else "success")
    if revoked:
        assert child["failures"][0]["code"] == "cap.revoked"
    assert rig.net()["counts"]["step_runs"] == {"call": 1, "bad" if revoked else "good": 1}
    assert rig.verify().first is None
    check(rig)


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("grants", "path"),
    [
        ({"fortran": {}}, "/grants/fortran"),
        ({"http": {"host": ["a"]}}, "/grants/http"),
        ({"http": {"hosts": "a"}}, "/grants/http/hosts"),
        ({"http": 7}, "/grants/http"),
    ],
)
def test_what_no_capability_knows_is_refused(grants: Any, path: str) -> None:
    """PB-22: an unknown kind or field refuses the request, and nothing is written."""
    rig = PlayRig()
    before = rig.world.seq
    with pytest.raises(TallyError) as raised:
        rig.request(TEXT % (LOOP % "parallel"), grants=grants)
    assert raised.value.code == "playbook.bad_allow"
    assert raised.value.where["path"].startswith(path)
    assert rig.world.seq == before


@pytest.mark.clause("X-24")
def test_an_execution_gets_its_grants_once() -> None:
    """PB-22: a second request for a running execution widens nothing; unknown names are refused."""
    rig = PlayRig()
    text = TEXT % (LOOP % "parallel")
    rig.request(text, grants={"http": {"hosts": []}})
    with pytest.raises(TallyError) as raised:
        rig.request(text, grants={"http": {}})
    assert raised.value.code == "execution.exists"
    for name in ("tool.shell@e1", "tool.http@nobody", "tool.http"):
        with pytest.raises(TallyError) as raised:
            revoke(rig, name)
        assert raised.value.code == "grant.unknown"
