"""Governing: proposals of a node's worlds, from the candidate to the switch (06 sections 6 to 8).

What is decided is decided by the kernel; here a patch becomes a candidate, reports are made, the
modules of a candidate are tried, and callers, also workflows that ask by effects, are told.
"""

# tidy: the way from a proposal to the switch stands on one page.
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from tallystick.errors import (
    BadDefinition,
    Conflict,
    NotQuiescent,
    Rejected,
    TallyError,
    UnknownName,
)
from tallystick.governance import patch as patches
from tallystick.governance.patch import Blobs, Compiled
from tallystick.governance.planning import chosen
from tallystick.governance.prove import TAIL, Verdict
from tallystick.governance.rerun import Order
from tallystick.governance.sealed import check_sealed, proposers
from tallystick.governance.shadow import TAIL as INPUTS
from tallystick.journal.base import Reader
from tallystick.kernel import propose, quiescence
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Activate, Fail, Propose, Prove, Sample, Shadow, Vote
from tallystick.kernel.plans import Plan
from tallystick.kernel.proposals import Proposal
from tallystick.kernel.propose import known
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle, from_zip
from tallystick.model.frames import open_frame
from tallystick.model.records import Proposed
from tallystick.node import probe, proofs, rehearsal
from tallystick.node.node import Node
from tallystick.node.proofs import Proof
from tallystick.node.provers import at_hand
from tallystick.node.rehearsal import Rehearsal
from tallystick.values import canon

ROUNDS: Final = 5
HELD_S: Final = 20.0  # how long a world may stand still while its cells are proved
_LOOK_S: Final = (0.02, 2.0)  # between two looks at what is open: at first, and at most


class Asker(NamedTuple):
    """Who asks, with what sample of time and chance; `intent` is a workflow's effect."""

    principal: str
    sample: Sample
    intent: bytes | None = None


class Wish(NamedTuple):
    """What is proposed: a patch, a container, or the patch of an older proposal once more."""

    patch: Any = None
    bundle: bytes | None = None
    rebase: str | None = None
    description: str | None = None


class Trial(NamedTuple):
    """How a candidate is tried: how far back, with what answers, and what verdicts lead to."""

    tail: int | None = None
    order: Order = Order()
    on: Mapping[str, str] | None = None


class Governing:
    """The governance of a node; used on the io thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tried: dict[bytes, None] = {}

    # ---- proposing --------------------------------------------------------------------------

    # tidy: one story, told in order.
    async def propose(self, world: str, wish: Wish, asker: Asker) -> dict[str, Any]:
        """Compile what is wished for and propose it; its id, its bundle and what it changes."""
        manifest, principals = await self._node.look(world, _in_force)
        made = await self._node.read(lambda reader: _compiled(reader, world, manifest, wish))
        bundle = made.bundle
        await self._node.read(
            lambda reader: check_sealed(
                bundle, patches.bundle_of(manifest, _blobs(reader, world)), principals
            )
        )
        self._node.vouch(bundle, proposers(principals))
        document = canon.encode(made.patch)
        digest = canon.digest_of(document)
        given = Propose(
            asker.sample,
            manifest,
            bundle.root_digest,
            bundle.manifest_digest,
            digest,
            {**bundle.blobs(), digest: document},
            made.summary,
            asker.principal,
            wish.description,
            wish.rebase,
            asker.intent,
        )
        answer = await self._node.one(world, given)
        return {
            "proposal": answer.detail["proposal"],
            "bundle": bundle.root,
            "manifest": canon.text_of(bundle.manifest_digest),
            "summary": made.summary,
            "seq": answer.seq,
        }

    async def candidate(self, world: str, ident: str) -> tuple[Proposal, Bundle]:
        """A proposal that is not over, and its bundle."""
        proposal = await self._node.look(world, lambda live: known(live, ident))
        bundle = await self._node.read(
            lambda reader: patches.bundle_of(proposal.manifest, _blobs(reader, world))
        )
        return proposal, bundle

    async def shadow(self, world: str, ident: str, trial: Trial, asker: Asker) -> dict[str, Any]:
        """Try a proposal on the recorded tail, and keep the report."""
        tried = await self._rehearsed(world, ident)
        tail = INPUTS if trial.tail is None else trial.tail
        made = await rehearsal.shadow_on(self._node, world, tried, trial.order, tail=tail)
        blobs = {made.report_hash: made.document}
        said = (ident, made.report_hash, made.complete, blobs, asker.principal)
        answer = await self._node.one(world, Shadow(asker.sample, *said, asker.intent))
        return {"proposal": ident, "seq": answer.seq, **answer.detail, "report": made.report}

    async def prove(self, world: str, ident: str, trial: Trial, asker: Asker) -> dict[str, Any]:
        """Ask for a verdict on every open cell, and keep the report."""
        tried = await self._rehearsed(world, ident)
        made = await proofs.prove_on(self._node, world, tried._replace(ticks=_ticks(trial)))
        blobs = {made.report_hash: made.document}
        said = (ident, made.report_hash, made.report["verdicts"], blobs, asker.principal)
        answer = await self._node.one(world, Prove(asker.sample, *said, asker.intent))
        return {"proposal": ident, "seq": answer.seq, **answer.detail, "report": made.report}

    async def _rehearsed(self, world: str, ident: str) -> Rehearsal:
        """What is tried; refuses a stale proposal before any work is done."""
        await self._node.look(world, lambda live: propose.live(live, ident))
        _, bundle = await self.candidate(world, ident)
        return Rehearsal(bundle, ident)

    async def vote(self, world: str, given: Vote) -> dict[str, Any]:
        """Count a word on a proposal."""
        answer = await self._node.one(world, given)
        return {"proposal": given.proposal, "seq": answer.seq, **answer.detail}

    # ---- applying ---------------------------------------------------------------------------

    async def apply(
        self, world: str, ident: str, asker: Asker, wait_s: float = 0.0, trial: Trial | None = None
    ) -> dict[str, Any]:
        """Switch to a proposal's bundle at quiescence; refuses with every blocker named.

        With a wait, new events are refused while what is open comes to its end.
        With a trial the open cells are proved first, and go on as the verdicts allow.
        """
        await self._prepare(world, ident, asker)
        if trial is not None:
            return await self._proved(world, ident, trial, asker)
        if wait_s > 0:
            async with self._closed(world):
                await self._quiet(world, asker.intent, wait_s)
                return await self._switch(world, ident, asker)
        return await self._switch(world, ident, asker)

    async def _prepare(self, world: str, ident: str, asker: Asker) -> None:
        """Try the modules of a candidate; what cannot be loaded ends its proposal."""
        proposal, bundle = await self.candidate(world, ident)
        if proposal.bundle in self._tried:
            return
        try:
            await probe.tried(bundle)
        except BadDefinition as why:
            said = (ident, why.code, why.message, asker.principal)
            await self._node.one(world, Fail(asker.sample, *said, asker.intent))
            raise
        self._tried[proposal.bundle] = None

    async def _proved(self, world: str, ident: str, trial: Trial, asker: Asker) -> dict[str, Any]:
        """Prove, plan and switch; what ticked meanwhile is proved while the world stands still.

        As long as that is too much, the world goes on and there is another round, five at most.
        """
        tried = (await self._rehearsed(world, ident))._replace(ticks=_ticks(trial))
        proof: Proof | None = None
        for _ in range(ROUNDS):
            proof = await proofs.prove_on(self._node, world, tried, proof)
            _plan(proof, trial, ident)
            answer = await self._caught_up(world, tried, trial, (proof, asker))
            if answer is not None:
                return await self._switched(world, ident, answer)
        raise Conflict(
            f"cells tick faster than they are proved, {ROUNDS} times",
            code="gov.prove_unstable",
            where={"proposal": ident},
            hint="suspend what is busy, or apply with --wait",
        )

    async def _caught_up(
        self, world: str, tried: Rehearsal, trial: Trial, known: tuple[Proof, Asker]
    ) -> Answer | None:
        """Hold the world, prove what ticked since, and switch; None when that would take long."""
        node, (proof, asker) = self._node, known
        ident = tried.proposal
        assert ident is not None, "only proposals are applied"
        async with at_hand() as child, node.held(world):
            try:
                async with asyncio.timeout(HELD_S):
                    last = await proofs.caught_up(node, world, tried, proof, child)
            except TimeoutError:
                return None
            if last is None:
                return None
            base = await node.look(world, _manifest)
            given = self._activation(base, ident, asker)._replace(
                plan=_plan(last, trial, ident),
                report_hash=last.report_hash,
                blobs={last.report_hash: last.document},
            )
            answer = await node.now(world, given)
        # A world that was opened anew meanwhile, after a full disk, did not stand still.
        moved = answer.kind == "refused" and answer.detail["code"] == "gov.plan_outdated"
        return None if moved else answer

    async def _switch(self, world: str, ident: str, asker: Asker) -> dict[str, Any]:
        node = self._node
        manifest = await node.look(world, _manifest)
        answer = await node.one(world, self._activation(manifest, ident, asker))
        return await self._switched(world, ident, answer)

    def _activation(self, manifest: bytes, ident: str, asker: Asker) -> Activate:
        nothing = b""  # the proposal says which bundle
        to = (nothing, nothing, manifest)
        given = Activate(asker.sample, *to, {}, asker.principal)
        return given._replace(proposal=ident, intent=asker.intent)

    async def _switched(self, world: str, ident: str, answer: Answer) -> dict[str, Any]:
        if answer.kind == "refused":
            raise refusal(ident, answer)
        return await self.applied(world, ident, answer.seq)

    async def applied(self, world: str, ident: str, seq: int) -> dict[str, Any]:
        """What is told of a switch; a checkpoint stands behind it by then, if there is room."""
        signed = await self._node.duties.signed(world)
        return {
            "proposal": ident,
            "status": "applied",
            "seq": seq,
            "manifest": canon.text_of(await self._node.look(world, _manifest)),
            "checkpoint": signed,
        }

    @asynccontextmanager
    async def _closed(self, world: str) -> AsyncIterator[None]:
        """No new events of a world for a while; open again whatever comes of it."""
        closed = self._node.closed
        closed[world] = closed.get(world, 0) + 1
        try:
            yield
        finally:
            closed[world] -= 1
            if not closed[world]:
                del closed[world]

    async def _quiet(self, world: str, asking: bytes | None, wait_s: float) -> None:
        """Wait until nothing is open, or for so long; who asks again is told what still is."""
        until = self._node.loop.time() + wait_s
        pause = _LOOK_S[0]
        while True:
            open_ = await self._node.look(world, lambda live: quiescence.named(live, asking)[1])
            left = until - self._node.loop.time()
            if not open_ or left <= 0:
                return
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _LOOK_S[1])


def _plan(proof: Proof, trial: Trial, ident: str) -> Plan:
    """What becomes of each open cell; refuses when one may neither go on nor was given a pin."""
    choice = chosen(proof.verdicts, trial.on)
    if choice.refused:
        raise _unproved(ident, choice.refused)
    return choice.plan


def _unproved(ident: str, refused: list[Verdict]) -> NotQuiescent:
    """The refusal of cells that may neither go on nor were given a pin."""
    rows = [["cell_open", each.row()] for each in refused[: quiescence.NAMED_MAX]]
    return NotQuiescent(
        f"blocked: {len(refused)} cells would not go on as they are",
        code="gov.not_proved",
        where={"proposal": ident, "blockers": rows, "count": len(refused)},
        hint="`--on diverges=pin` lets them finish on their old code",
    )


def refusal(ident: str, answer: Answer) -> TallyError:
    """A refused activation as the error that its caller is told."""
    detail: Mapping[str, Any] = answer.detail
    where = {"proposal": ident, "seq": answer.seq, **detail}
    if detail["code"] == "gov.stale_base":
        return Conflict(
            f"{ident} was made for another manifest",
            code="gov.stale_base",
            where=where,
            hint=f"`tally gov propose --rebase {ident}` makes a new one",
        )
    return NotQuiescent(
        f"blocked: {_counted(detail)}",
        code=detail["code"],
        where=where,
        hint=f"finish or cancel them, wait with --wait 10m, or `tally gov prove {ident}`",
    )


_WORDS: Final = {
    "cell_open": ("cell open", "cells open"),
    "intent_open": ("intent open", "intents open"),
    "mailbox": ("mailbox with events", "mailboxes with events"),
    "ready": ("cell ready", "cells ready"),
}


def _counted(detail: Mapping[str, Any]) -> str:
    kinds = [kind for kind, _ in detail["blockers"]]
    counts = {kind: kinds.count(kind) for kind in _WORDS if kind in kinds}
    parts = [f"{count} {_WORDS[kind][count > 1]}" for kind, count in counts.items()]
    more = detail["count"] - len(kinds)
    return ", ".join([*parts, f"{more} more"] if more else parts)


def _ticks(trial: Trial) -> int | None:
    """How many ticks of a cell count; 0 asks for all of them."""
    return TAIL if trial.tail is None else trial.tail or None


def _manifest(world: World) -> bytes:
    return world.manifest


def _in_force(world: World) -> tuple[bytes, tuple[Mapping[str, Any], ...]]:
    held = world.active.catalogue.manifest.get("governance", {})
    return world.manifest, tuple(held.get("principals", ()))


def _blobs(reader: Reader, world: str) -> Blobs:
    return Blobs(lambda digest: reader.blob(world, digest))


def _compiled(reader: Reader, world: str, manifest: bytes, wish: Wish) -> Compiled:
    """The candidate that somebody wishes for."""
    given = [part for part in (wish.patch, wish.bundle, wish.rebase) if part is not None]
    if len(given) != 1:
        raise Rejected(
            "say one of patch, bundle and rebase", code="gov.bad_patch", where={"path": "/"}
        )
    blobs = _blobs(reader, world)
    active = patches.bundle_of(manifest, blobs)
    if wish.bundle is not None:
        return patches.derived(from_zip(wish.bundle), active)
    if wish.rebase is not None:
        return patches.rebased(_patch_of(reader, world, wish.rebase), active, blobs)
    return patches.compiled(wish.patch, active, blobs)


def _patch_of(reader: Reader, world: str, ident: str) -> dict[str, Any]:
    """The patch of any proposal of a world's journal, also of one that is over."""
    seq = int(ident[2:]) if ident.startswith("p-") and ident[2:].isdigit() else 0
    frames = reader.read(world, seq - 1, seq) if 0 < seq <= reader.head(world).seq else ()
    for frame in frames:
        for record in open_frame(frame.body)[3]:
            if isinstance(record, Proposed) and record.proposal == ident:
                data = reader.blob(world, record.patch)
                assert data is not None, "the patch of a proposal is kept with it"
                found: dict[str, Any] = canon.decode(data)
                return found
    raise UnknownName(
        f"no proposal {ident} here",
        code="gov.unknown_proposal",
        where={"proposal": ident},
        hint="`tally gov ls` lists them",
    )
