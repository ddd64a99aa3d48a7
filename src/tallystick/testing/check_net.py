"""What must hold of one execution after every tick (I34 to I39), beside equality with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.testing.reference_net import Model, Net
from tallystick.testing.violation import must

_TOLD: Final = ("enqueued", "consumed", "absorbed", "discarded")


class Execution:
    """One execution: the model of its net, and all that the runtime has told."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.model = Model(net)
        self.history: list[tuple[str, ...]] = []
        self.told: list[Mapping[str, Any]] = []
        self.state: Mapping[str, Any] = {}

    def settle(self, ref: str, *, ok: bool, patch: bool) -> None:
        """A worker has answered for a unit; an answer that nobody waits for changes nothing."""
        number, index = _unit(ref)
        run = self.model.runs.get(number)
        if run is not None and index in run.open:
            self.model.settle(number, index, ok=ok, patch=patch)

    @property
    def waits(self) -> bool:
        """True while only a change of ctx can move it."""
        return bool(self.state["phase"] == "waiting")

    def check(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Judge the execution as a tick has left it."""
        self.told += told
        for each in told:
            word = each["event"].removeprefix("token.")
            if word in _TOLD:
                self.history.append((word, each["token"], each["step"]))
        self.check_I34()
        self.check_I35(told)
        self.check_I38()
        self.check_I39(told)
        mine = self.model.history
        must(self.history == mine, "I35", f"tokens {self.history[-3:]}, the model {mine[-3:]}")
        self.check_I37()

    def check_I34(self) -> None:  # noqa: N802 - named by the invariant
        """Created = consumed + absorbed + discarded + live, as counted and as told."""
        net, counts = self.state, self.state["counts"]
        gone = counts["consumed"] + counts["absorbed"] + counts["discarded"]
        live = len(net["tokens"])
        must(counts["created"] == gone + live, "I34", f"{counts} with {live} tokens")
        words = Counter(word for word, *_ in self.history)
        must(words["enqueued"] == counts["created"], "I34", "a token was made and not told")
        must(net["groups"]["g0"]["live"] == live + len(net["runs"]), "I34", "a group miscounts")

    def check_I35(self, told: Sequence[Mapping[str, Any]]) -> None:  # noqa: N802
        """An exclusive router takes one arc at most, the first that is true."""
        for each in told:
            if each["event"] == "next.evaluated" and each["mode"] == "exclusive":
                must(len(each["matched"]) <= 1, "I35", f"{each['step']} took {each['matched']}")

    def check_I36(self, ref: str) -> None:  # noqa: N802
        """What is sent to a worker was let in: the model has begun it too."""
        number, index = _unit(ref)
        run = self.model.runs.get(number)
        # One that a join cancels in the tick that begins it is asked for and taken back.
        begun = index in run.open if run is not None else number <= self.model.ran
        must(begun, "I36", f"{ref} was sent, and may not run")

    def check_I37(self) -> None:  # noqa: N802
        """Complete exactly when nothing is runnable, pending, running or joining."""
        done = self.state["status"] if self.state["phase"] == "done" else ""
        must(done == self.model.result, "I37", f"is {done or 'open'}, not {self.model.result}")

    def check_I38(self) -> None:  # noqa: N802
        """The final step runs once at most after quiescence, and the end is told once."""
        words = [each["event"] for each in self.told]
        must(words.count("playbook.finished") <= 1, "I38", "it finished twice")
        if "playbook.quiescent" in words:
            after = self.told[words.index("playbook.quiescent") :]
            runs = [each["run"] for each in after if each["event"] == "step.scheduled"]
            must(len(runs) <= 1, "I38", f"the final step ran as {runs}")

    def check_I39(self, told: Sequence[Mapping[str, Any]]) -> None:  # noqa: N802
        """`loop.done` comes once, after every iteration has settled."""
        for each in told:
            if each["event"] == "loop.done":
                mine = Counter(e["event"] for e in self.told if e.get("run") == each["run"])
                settled = mine["loop.iteration.done"] + mine["loop.iteration.failed"]
                items = self.net.steps[each["step"]].items
                good = mine["loop.done"] == 1 and settled == items
                must(good, "I39", f"{each['run']}: done with {settled} of {items}")


def _unit(ref: str) -> tuple[int, int | None]:
    """Run and iteration of a reference such as `r3/2#1`."""
    run, _, index = ref.partition("#")[0].partition("/")
    return int(run.removeprefix("r")), int(index) if index else None
