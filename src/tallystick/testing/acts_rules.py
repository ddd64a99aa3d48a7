"""What people do under rules: they decide about held intents, and propose, shadow, vote, apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.governance.rerun import Overlay
from tallystick.governance.shadow import Candidate, Shadowing, shadow
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.inputs import Activate, Decide, Propose, Shadow, Vote
from tallystick.kernel.proposals import Proposal
from tallystick.kernel.replay import open_world
from tallystick.kernel.roots import root
from tallystick.kernel.world import World
from tallystick.node.driver import Driver
from tallystick.testing.plan import Decision
from tallystick.testing.ports import WORLD
from tallystick.testing.violation import must
from tallystick.values import canon

if TYPE_CHECKING:
    from tallystick.testing.simulate import Simulation


def _picked(found: list[Any], decision: Decision) -> Any | None:
    return found[int(decision["pick"] * len(found))] if found else None


class RuleActs:
    """The hands of those who decide; what the rules refuse is refused, and that is fine."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim

    def _driver(self) -> Driver:
        assert self.sim.driver is not None, "acts meet a running node"
        return self.sim.driver

    def _offer(self, given: Any) -> None:
        self.sim.tickets.append((self._driver().offer(given), None))

    def decide(self, decision: Decision) -> None:
        """Somebody says yes or no to something that is held, or was."""
        world = self._driver().world
        held = [path for path, one in sorted(world.intents.entries()) if one.hold is not None]
        intent = _picked(held, decision)
        if intent is not None:
            sample = self.sim.clock.sample()
            self._offer(Decide(sample, intent, decision["who"], decision["word"]))

    def propose(self, decision: Decision) -> None:
        """Propose the other bundle, for the manifest that is active."""
        world = self._driver().world
        one, other = self.sim.scene.bundles
        to = other if world.manifest == one.manifest else one
        patch = canon.encode({"pick": int(decision["pick"] * 100)})
        blobs = {**to.blobs, canon.digest_of(patch): patch}
        what = (world.manifest, to.manifest, to.manifest, canon.digest_of(patch), blobs)
        self._offer(Propose(self.sim.clock.sample(), *what, {"changed": []}, decision["who"]))

    def _proposal(self, decision: Decision) -> Proposal | None:
        found: Proposal | None = _picked(list(self._driver().world.proposals), decision)
        return found

    def shadow(self, decision: Decision) -> None:
        """Try a proposal on the recorded tail, twice: one report, and nothing else changes."""
        proposal, driver = self._proposal(decision), self._driver()
        if proposal is None or proposal.base != driver.world.manifest:
            return
        driver.flush()
        before = root(driver.world)
        made, again = self._shadowed(proposal, decision), self._shadowed(proposal, decision)
        must(made.report_hash == again.report_hash, "I15", "two shadows gave two reports")
        must(root(driver.world) == before, "I7", "a shadow changed the world")
        blobs = {made.report_hash: made.document}
        given = (proposal.id, made.report_hash, made.complete, blobs, decision["who"])
        self._offer(Shadow(self.sim.clock.sample(), *given))

    def _shadowed(self, proposal: Proposal, decision: Decision) -> Shadowing:
        frames = list(self.sim.journal.read(WORLD))
        at = max(1, len(frames) - decision["tail"])
        start, live = self._opened(frames[:at]), self._opened(frames)
        candidate = Candidate(proposal.bundle, proposal.manifest, proposal.id)
        return shadow(start, live, frames[at:], candidate)

    def _opened(self, frames: list[Any]) -> World:
        sim = self.sim
        blobs = Overlay(StagedBlobs(sim.journal, WORLD))
        return open_world(WORLD, frames, blobs, sim.scene.runner, settings=sim.plain)

    def vote(self, decision: Decision) -> None:
        """Somebody says yes or no to a proposal."""
        proposal = self._proposal(decision)
        if proposal is not None:
            sample = self.sim.clock.sample()
            self._offer(Vote(sample, proposal.id, decision["who"], decision["word"]))

    def apply(self, decision: Decision) -> None:
        """Apply a proposal, if the rules allow it and nothing is open."""
        proposal, world = self._proposal(decision), self._driver().world
        if proposal is not None:
            given = Activate(self.sim.clock.sample(), b"", b"", world.manifest, {}, decision["who"])
            self._offer(given._replace(proposal=proposal.id))
