"""Executions on a real kernel over the memory journal, driven by hand."""

from __future__ import annotations

from typing import Any

from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import Submit
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.jobs import Published
from tallystick.node.worlds import NewWorld, create_world
from tallystick.playbooks.bundle import WORKFLOW, play_documents
from tallystick.playbooks.document import load
from tallystick.playbooks.written import whole_of
from tallystick.values import canon
from tests.rig import NODE, WORLD, Jobs, ManualClock, Rig, bundle_of


class PlayRig(Rig):
    """A world that plays."""

    def __init__(self, lane: Builtin | None = None, documents: Any = None) -> None:
        self.manifest, blobs = bundle_of(documents or play_documents())
        self.journal = MemoryJournal()
        lanes = {"builtin": lane or Builtin()}
        self.runner: Any = Runners(None, library=Library(), lanes=lanes)  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.jobs = Jobs()
        self.settings = None
        self.answered = 0
        new = NewWorld(WORLD, self.manifest, self.manifest, blobs, NODE.public)
        self.driver = create_world(self.ports(), new, self.runner, None)

    def request(self, text: str, name: str = "e1", **more: Any) -> None:
        """Ask for an execution."""
        value = {"execution": name, "document": load(text, unchecked=True).bytes, "workload": {}}
        value |= {"grants": {"python": {}}, "principal": "ana", "parent": None, **more}  # type: ignore[dict-item]
        self.system("sys/PlayRequested@1", value)

    def system(self, schema: str, value: Any) -> None:
        """A system input, and all that follows from it."""
        sample = self.clock.sample()
        self.do(Submit(sample, schema, value, lens="native", origin="system"))
        self.run()

    def next_job(self) -> Published | None:
        """The oldest job that nobody has answered yet."""
        if self.answered >= len(self.jobs.all):
            return None
        self.answered += 1
        return self.jobs.all[self.answered - 1]

    def net(self, name: str = "e1") -> dict[str, Any]:
        """The net of an execution."""
        return net_in(self, name)


def net_in(rig: Rig, name: str = "e1") -> dict[str, Any]:
    """The net of an execution, wherever it stands."""
    net: dict[str, Any] = state_in(rig, name)["net"]
    return net


def state_in(rig: Rig, name: str = "e1") -> dict[str, Any]:
    """The whole state of an execution, as a tick has it in memory."""
    return whole_of(
        rig.state(WORKFLOW, name),
        lambda text: rig.driver.blobs.get(canon.raw_of(text)),  # type: ignore[arg-type, return-value]  # it is there
    )
