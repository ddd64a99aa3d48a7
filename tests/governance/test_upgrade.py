"""Upgrades over HTTP: proposed, decided, applied at quiescence, with everything told."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.bundle_python import python_bundle
from tallystick.model.manifest_sources import canonical_sources
from tallystick.values import canon
from tests.api.rig import Served
from tests.governance.apps import PRINT, TILL, app
from tests.governance.serve import Printer, W, ask, governed, sold

RULES = {"require": [], "approvals": 1, "author_may_approve": False}
ALL = ["read", "propose", "approve", "apply", "revoke"]
PEOPLE = [{"id": name, "kind": "human", "scopes": ALL} for name in ("alice", "bob")]
GOVERNANCE = {"governance": {"principals": PEOPLE, "rules": RULES}}


def zipped(bundle: Bundle) -> str:
    return b64encode(bundle.to_zip()).decode("ascii")


async def proposed(served: Served, bundle: Bundle, who: str = "alice") -> str:
    status, said = await ask(served, who, "post", "/proposals", bundle=zipped(bundle))
    assert status == 201, said
    return str(said["proposal"])


async def approved(served: Served, bundle: Bundle) -> str:
    ident = await proposed(served, bundle)
    status, said = await ask(served, "bob", "post", f"/proposals/{ident}/approve", comment="go")
    assert status == 202, said
    return ident


async def cents(served: Served, till: str) -> int:
    shown = (await served.http.get(f"{W}/cells/{TILL.replace('/', '%2F')}/{till}")).json()
    return int(shown["state"]["cents"])


# tidy: one story, from the proposal to both versions of the code.
@pytest.mark.clause("X-19", "K-20")
def test_an_upgrade_over_http(tmp_path: Path) -> None:
    """AG-16, AG-17, AG-20: proposed, not approved by its author, blocked with every blocker named,
    applied when all is quiet; a second one on the same base is stale and is rebased.
    """

    # tidy: one story, told in order.
    async def main() -> None:
        printer = Printer()
        printer.paper = asyncio.Event()
        async with governed(tmp_path, app(**GOVERNANCE), printer) as served:  # type: ignore[arg-type]
            assert (await sold(served, "a")).status_code == 202
            ident = await proposed(served, app(2, **GOVERNANCE))
            status, said = await ask(served, "alice", "post", f"/proposals/{ident}/approve")
            assert (status, said["code"]) == (403, "gov.author_may_not")
            status, said = await ask(served, "alice", "post", f"/proposals/{ident}/apply")
            assert (status, said["code"]) == (409, "gov.not_approved")
            beside = await approved(served, app(1, limits={"effects_max": 9}, **GOVERNANCE))
            await ask(served, "bob", "post", f"/proposals/{ident}/approve")
            _, shown = await ask(served, "bob", "get", f"/proposals/{ident}")
            assert shown["state"] == "approved"
            assert [each["principal"] for each in shown["approvals"]] == ["bob"]
            (replaced,) = shown["patch"]["patches"]
            assert "replace_def" in replaced

            await sold(served, "b", 500)
            before = await served.root()
            status, said = await ask(served, "bob", "post", f"/proposals/{ident}/apply")
            assert (status, said["code"]) == (409, "gov.not_quiescent")
            assert [kind for kind, _ in said["blockers"]] == ["cell_open", "intent_open"]
            assert said["blockers"][1][1]["effect"] == PRINT
            assert await served.root() == before
            printer.paper.set()
            assert await served.node.quiet(served.node.resolve("main"), 60_000)
            status, said = await ask(served, "bob", "post", f"/proposals/{ident}/apply")
            assert (status, said["status"]) == (202, "applied"), said
            assert said["checkpoint"] >= said["seq"]
            await sold(served, "a", 10)
            await served.node.quiet(served.node.resolve("main"), 60_000)
            assert await cents(served, "a") == 21, "one by the old code, ten by the new"

            status, said = await ask(served, "bob", "post", f"/proposals/{beside}/apply")
            assert (status, said["code"]) == (409, "gov.stale_base")
            _, listed = await ask(served, "bob", "get", "/proposals")
            assert [row["state"] for row in listed["items"]] == ["applied", "stale"]
            status, said = await ask(served, "alice", "post", "/proposals", rebase=beside)
            assert status == 201, said
            assert said["summary"]["sections"] == ["limits"]
            replay = (await served.http.post(f"{W}/replay", json={"from_seq": 0})).json()
            assert replay["ok"], replay

    asyncio.run(main())


@pytest.mark.clause("K-20")
def test_waiting_closes_the_door(tmp_path: Path) -> None:
    """AG-20: with a wait, new events get 503 `world.upgrading` while receipts go on; the door is
    open again after it, whether the change was applied or not.
    """

    async def main() -> None:
        printer = Printer()
        printer.paper = asyncio.Event()
        async with governed(tmp_path, app(**GOVERNANCE), printer) as served:  # type: ignore[arg-type]
            ident = await approved(served, app(2, **GOVERNANCE))
            await sold(served, "a", 500)
            path = f"/proposals/{ident}/apply"
            status, said = await ask(served, "bob", "post", path, wait_ms=50)
            assert (status, said["code"]) == (409, "gov.not_quiescent")
            assert (await sold(served, "b")).status_code == 202
            applying = asyncio.create_task(ask(served, "bob", "post", path, wait_ms=60_000))
            refused = await sold(served, "c")
            while refused.status_code != 503:
                refused = await sold(served, "c")
            assert refused.json()["code"] == "world.upgrading"
            assert refused.headers["retry-after"] == "1"
            printer.paper.set()
            status, said = await applying
            assert (status, said["status"]) == (202, "applied"), said
            assert (await sold(served, "c")).status_code == 202
            assert len(printer.asked) == 1

    asyncio.run(main())


# tidy: one story, told in order.
@pytest.mark.clause("X-19", "K-21", "X-21")
def test_shadow_and_prove_over_http(tmp_path: Path) -> None:
    """AG-18, AG-24: a shadow finds what the candidate changes and leaves the live world alone; an
    open cell that would diverge blocks the proof, and finishes on its old code when it is pinned.
    """
    rules = {"governance": {"rules": {"require": ["shadow"]}}}

    # tidy: one story, told in order.
    async def main() -> None:
        printer = Printer()
        printer.paper = asyncio.Event()
        async with governed(tmp_path, app(**rules), printer) as served:  # type: ignore[arg-type]
            for till in ("a", "b", "a"):
                await sold(served, till, 10)
            await sold(served, "c", 500)
            made = await served.http.post(
                f"{W}/proposals", json={"bundle": zipped(app(2, **rules))}
            )
            ident = made.json()["proposal"]
            path = f"{W}/proposals/{ident}"
            early = await served.http.post(f"{path}/approve", json={})
            assert (early.status_code, early.json()["code"]) == (409, "gov.needs_shadow")
            before = await cents(served, "a")
            asked = len(printer.asked)
            said = (await served.http.post(f"{path}/shadow", json={})).json()
            assert said["complete"], said
            assert said["report"]["totals"]["changed"] == 3
            assert "not predicted" in said["report"]["statement"]
            again = (await served.http.post(f"{path}/shadow", json={})).json()
            assert again["report"]["horizon"]["inputs"] >= said["report"]["horizon"]["inputs"]
            whole = (await served.http.get(f"{path}/report")).json()
            assert whole["report_hash"] == again["report_hash"]
            assert (await cents(served, "a"), len(printer.asked)) == (before, asked)
            read = {"report_hash": again["report_hash"]}
            assert (await served.http.post(f"{path}/approve", json=read)).status_code == 202

            proof = (await served.http.post(f"{path}/prove", json={})).json()
            assert proof["verdicts"] == {"identical": 0, "diverges": 1, "needs_migration": 0}
            (row,) = proof["report"]["rows"]
            assert (row["key"], row["detail"]["field"]) == ("c", "state")
            no = await served.http.post(f"{path}/apply", json={"prove": True})
            assert (no.status_code, no.json()["code"]) == (409, "gov.not_proved"), no.json()
            chosen = {"prove": True, "on": {"diverges": "pin"}}
            yes = await served.http.post(f"{path}/apply", json=chosen)
            assert yes.status_code == 202, yes.json()
            pins = (await served.http.get(f"{W}/pins")).json()
            assert [pin["key"] for pin in pins["items"]] == ["c"]
            await sold(served, "c", 10)
            await sold(served, "a", 10)
            assert (await cents(served, "c"), await cents(served, "a")) == (510, 40)
            printer.paper.set()
            assert await served.node.quiet(served.node.resolve("main"), 60_000)
            assert (await served.http.get(f"{W}/pins")).json()["count"] == 0
            replay = (await served.http.post(f"{W}/replay", json={"from_seq": 0})).json()
            assert replay["ok"], replay

    asyncio.run(main())


BROKEN = b"""
from tallystick import Bundle, Record

app = Bundle("till")
{}[1]
"""


@pytest.mark.clause("X-19")
def test_modules_are_tried_first(tmp_path: Path) -> None:
    """AG-17: a candidate whose module cannot be loaded ends its proposal; nothing else happens."""
    good = app(2, **GOVERNANCE)

    async def main() -> None:
        async with governed(tmp_path, app(**GOVERNANCE)) as served:  # type: ignore[arg-type]
            ident = await approved(served, _broken(good))
            status, said = await ask(served, "bob", "post", f"/proposals/{ident}/apply")
            assert (status, said["code"]) == (422, "lane.load"), said
            _, shown = await ask(served, "bob", "get", f"/proposals/{ident}")
            assert (shown["state"], shown["code"]) == ("failed", "lane.load")
            status, said = await ask(served, "bob", "post", f"/proposals/{ident}/apply")
            assert (status, said["code"]) == (409, "gov.wrong_state")
            await sold(served, "a")
            assert await cents(served, "a") == 1

    asyncio.run(main())


def _broken(good: Bundle) -> Bundle:
    """The same definitions over Python that cannot be loaded."""
    root, artifacts = python_bundle({"app.py": BROKEN})
    nodes = [_with_artifact(node, root) for node in good.definitions()]
    unpinned = {key: good.manifest[key] for key in good.manifest if key != "modules"}
    definitions, manifest = canonical_sources([nodes, unpinned])
    return make_bundle(definitions, manifest, artifacts)


def _with_artifact(node: dict[str, Any], root: str) -> dict[str, Any]:
    runtime = node.get("runtime", {})
    if runtime.get("kind") != "python":
        return node
    artifact = {**runtime["artifact"], "root_hash": root}
    return {**node, "runtime": {**runtime, "artifact": artifact}}


# tidy: one story, told in order.
@pytest.mark.clause("K-29", "X-24")
def test_authority_flows_and_revocation(tmp_path: Path) -> None:
    """AG-05: what may be done is shown and explained; a revoked grant says no at once, and what
    is out under it is cancelled when that is asked for.
    """
    flows = [{"name": "paper", "match": {"effect": PRINT}, "max_open": {"world": 1}}]

    # tidy: one story, told in order.
    async def main() -> None:
        printer = Printer()
        printer.paper = asyncio.Event()
        base = app()
        authority = {**base.manifest["authority"], "flows": flows}
        async with governed(tmp_path, app(authority=authority), printer) as served:
            await sold(served, "a", 500)
            await sold(served, "b", 600)
            found = (await served.http.get(f"{W}/flows")).json()
            (flow,) = found["flows"]
            assert (flow["open"]["world"], found["queued"]) == (1, 1)
            shown = (await served.http.get(f"{W}/authority")).json()
            (grant,) = shown["grants"]
            assert grant["revoked"] is None
            assert shown["rules"]["approvals"] == 1
            made_up = {"workflow": TILL, "effect": PRINT, "params": {"cents": 5}, "key": "z"}
            said = (await served.http.post(f"{W}/explain", json=made_up)).json()
            assert said["decision"] == "hold", said
            bad = {**made_up, "params": {"cents": "x"}}
            said = (await served.http.post(f"{W}/explain", json=bad)).json()
            assert (said["decision"], said["code"]) == ("deny", "effect.params_invalid")
            before = await served.head()
            name = grant["name"]
            answer = await served.http.post(
                f"{W}/grants/{name}/revoke", json={"reason": "misused", "cancel_open": True}
            )
            assert answer.status_code == 202
            done = (await served.http.get(f"{W}/effects?status=all")).json()["items"]
            assert sorted(row["status"] for row in done) == ["cancelled", "denied"]
            said = (await served.http.post(f"{W}/explain", json=made_up)).json()
            assert (said["decision"], said["code"]) == ("deny", "cap.revoked")
            past = (await served.http.post(f"{W}/explain?at={before}", json=made_up)).json()
            assert past["decision"] == "hold"
            shown = (await served.http.get(f"{W}/authority")).json()
            assert shown["grants"][0]["revoked"] == "misused"

    asyncio.run(main())


def test_hashes_are_those_of_the_bundle(tmp_path: Path) -> None:
    """A proposal answers with the root that `tally bundle show` prints."""

    async def main() -> None:
        async with governed(tmp_path, app()) as served:
            other = app(2)
            answer = await served.http.post(f"{W}/proposals", json={"bundle": zipped(other)})
            assert answer.json()["bundle"] == other.root
            assert answer.json()["manifest"] == canon.text_of(other.manifest_digest)
            again = await served.http.post(f"{W}/proposals", json={"bundle": zipped(app())})
            assert (again.status_code, again.json()["code"]) == (409, "gov.no_change")
            none = await served.http.post(f"{W}/proposals", json={})
            assert (none.status_code, none.json()["code"]) == (400, "gov.bad_patch")
            odd = await served.http.get(f"{W}/proposals/p-1")
            assert (odd.status_code, odd.json()["code"]) == (404, "gov.unknown_proposal")

    asyncio.run(main())
