"""The scene of rules: approvals, flows, budgets, proposals and leased work, judged from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.kernel.inputs import Decide, Sample, Submit
from tallystick.kernel.world import World
from tallystick.modules.python import PythonRunner
from tallystick.node.jobs import Published
from tallystick.testing import program_rules as program
from tallystick.testing.plan import Config, Decision
from tallystick.testing.reference_rules import Judge
from tallystick.testing.scene import Content
from tallystick.testing.violation import must
from tallystick.values import canon

FUELS: Final = (1_000_000, 900_000)


class RuleScene:
    """Desks that ask for what needs a yes, room, money or a worker."""

    remote: frozenset[str] = frozenset({program.FAR})

    def __init__(self, config: Config) -> None:
        del config
        self.bundles = [program.bundle_of(fuel) for fuel in FUELS]
        self.runner = PythonRunner(program.FUNCTIONS)
        self.judge = Judge()

    def frame(self, seq: int, records: Sequence[Any], content: Content) -> None:
        """The judge takes the frame; it needs no blobs."""
        del content
        self.judge.frame(seq, records)

    def inputs(self, decision: Decision, sample: Sample) -> list[Any]:
        """A desk is told what to ask for."""
        return [Submit(sample, program.GO, decision["value"])]

    def greeting(self, sample: Sample, ref: int) -> Submit:
        """A desk that is asked for nothing."""
        return Submit(sample, program.GO, program.go("fork", [], ref))

    def answer(self, job: Published) -> tuple[str, bytes]:
        """What was let out is done; what is held reaches nobody."""
        asked = self.judge.open.get(job.intent)
        # A job that crossed its own end on the way is late, and that is all.
        must(asked is None or asked["hold"] is None, "I6", f"{job.effect} left while it was held")
        return "ok", canon.encode({"ref": job.dispatch_key.hex()[:12]})

    def usage(self, job: Published) -> Mapping[str, int] | None:
        """Half of what was set aside is used; odd requests do not say what they used."""
        n = program.cost_of(job.params)
        return {"tokens": n // 2} if job.effect == program.SPEND and n % 2 == 0 else None

    def wanted(self, sample: Sample) -> list[Any]:
        """Two people say yes to whatever waits for them."""
        made = []
        for intent, asked in self.judge.open.items():
            if asked["hold"] == "approval":
                free = [who for who in program.BOSSES if who not in asked["votes"]]
                left = program.NEEDED - len(asked["votes"])
                made += [Decide(sample, intent, who, "approve") for who in free[:left]]
        return made

    def dues(self) -> list[int]:
        """When the time to decide is over, and when the pace lets the next one out."""
        asked = self.judge.open.values()
        found = [a["expires"] for a in asked if a["hold"] == "approval"]
        paced = any(a["hold"] == "capacity" and a["effect"] == program.PACED for a in asked)
        return [*found, self.judge.due()] if paced else found

    def check_end(self, world: World) -> None:
        """Nothing is open, and the world's own books say what the judge's say."""
        judge = self.judge
        must(not judge.open, "I3", f"{[a['effect'] for a in judge.open.values()]} never ended")
        _, spent, reserved = world.levels.budgets.get("purse", (0, 0, 0))
        must((spent, reserved) == (judge.spent, 0), "I2", f"{spent} spent, not {judge.spent}")
        must(not world.levels.queue, "I3", "the queue is not empty")
        ends = {each.id: each.end for each in world.proposals}
        mine = {name: known["end"] for name, known in judge.proposals.items()}
        must(ends == mine, "I8", f"proposals {ends}, not {mine}")
