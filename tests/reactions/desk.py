"""A desk for scenarios: a real kernel world over a memory journal, a real directory, real file
writes, and time that a test moves.

What the watcher does is done here by hand: look at the directory, derive, submit.
"""

# tidy: one desk, all that scenarios do on it.
from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok, Outcome
from tallystick.executors.file import FileExecutor, FileSettings
from tallystick.executors.playbook import PlaybookExecutor
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import Clock, Operate, Settle, Submit
from tallystick.model.frames import open_frame
from tallystick.model.records import EventAdmitted
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.jobs import Published
from tallystick.node.receipts import Ended, receipts_of
from tallystick.node.worlds import NewWorld, create_world, open_driver
from tallystick.reactions import ids
from tallystick.reactions.bundle import reaction_documents
from tallystick.reactions.cell import Turn
from tallystick.reactions.document import Definition, load
from tallystick.reactions.heads import Head, bare_id, head_of
from tallystick.reactions.observation import Derived, Earlier, Observation, Request
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import (
    DIRECTORY,
    FILE,
    LINK,
    Tree,
    TreeNode,
    listings,
    tree_id,
    with_changes,
)
from tallystick.reactions.tree import EMPTY as NOTHING
from tallystick.reactions.triggers import derive
from tallystick.values import canon
from tests.executors.jobs import Heard
from tests.rig import NODE, WORLD, Jobs, ManualClock, Rig, bundle_of

WS = "ws-1"
MS = 1_000_000
SECOND = 1_000 * MS
FILES = ("sys/file.read@1", "sys/file.write@1", "sys/file.delete@1")
TIMER = "sys/timer.set@1"
STEP = "sys/playbook.step@1"


class Kept:
    """The blobs of the world as an executor sees them, and what it puts."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.put_now: dict[bytes, bytes] = {}

    def get(self, hash_text: str) -> bytes | None:
        raw = canon.raw_of(hash_text)
        return self.put_now.get(raw) or self.desk.driver.blobs.get(raw)

    def put(self, body: bytes) -> str:
        self.put_now[canon.digest_of(body)] = body
        return canon.hash_of(body)


def look(root: Path) -> Tree:
    """The tree of a directory, read whole: what a scan would find, without its speed."""
    leaves: dict[bytes, TreeNode | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        hidden = name.split("/", maxsplit=1)[0] in (".tally", ".reactions")
        if hidden or name.endswith(".stage"):
            continue
        if path.is_symlink():
            target = os.fsencode(path.readlink())
            leaves[name.encode()] = TreeNode(LINK, ids.content_id(target), len(target))
        elif path.is_dir():
            leaves[name.encode()] = TreeNode(DIRECTORY, b"")
        else:
            data = path.read_bytes()
            leaves[name.encode()] = TreeNode(FILE, ids.content_id(data), len(data))
    return with_changes(NOTHING, leaves)


class Desk(Rig):
    """One workspace of one world."""

    # tidy: all that stands on the desk.
    def __init__(self, root: Path, *texts: str, trust: bool = True, **more: Any) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root_path = root
        self.manifest, blobs = bundle_of(reaction_documents())
        self.journal = MemoryJournal()
        self.clock = ManualClock()
        self.jobs = Jobs()
        self.settings = None
        self.runner = lanes()  # type: ignore[assignment]
        new = NewWorld(WORLD, self.manifest, self.manifest, blobs, NODE.public)
        self.driver = create_world(self.ports(), new, self.runner, None)
        self.files = FileExecutor(FileSettings({WS: root}, slots=1))
        # It has the files of the workspace too, so that a task which it did itself would show.
        ports = ExecutorPorts(root, None, lambda: self.clock.now_ns)
        self.player = PlaybookExecutor({"file": self.files}, ports, 1)
        self.tree: Tree | None = None
        self.n = 0
        self.done = 0
        self.folded_records = 0
        self.read_upto = 0
        self.all_records: list[Any] = []
        self.stamps = Stamps()
        self.heads: dict[tuple[bytes, str], Head] = {}
        self.moved: list[Head] = []
        self.asked: list[Request] = []
        self.definitions: list[Definition] = []
        self.models: list[Mapping[str, Any]] = []
        self.answer = "a model's words"
        self.folding = False
        self.broken: dict[str, Outcome] = {}
        self.system("WorkspaceAdded", workspace_id=WS, name="w", shared=False, principal="ana")
        self.load(*texts, trust=trust, **more)

    # ---- inputs -----------------------------------------------------------------------------

    def system(self, schema: str, **value: Any) -> None:
        name = f"sys/{schema}@1"
        self.do(Submit(self.clock.sample(), name, value, lens="native", origin="system"))
        self.run()

    def load(
        self,
        *texts: str,
        trust: bool = True,
        prompts: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> None:
        self.definitions = [load(text, f"r{i}", prompts, **more) for i, text in enumerate(texts)]
        self.earlier = Earlier()
        self.system(
            "ReactionsLoaded",
            workspace_id=WS,
            definitions=[each.data for each in self.definitions],
            blobs=[blob for each in self.definitions for blob in each.blobs],
            principal="ana",
        )
        if trust:
            self.trust(*(each.hash for each in self.definitions))

    def trust(self, *hashes: str, follow: bool | None = None) -> None:
        told = {"definitions": list(hashes), "follow": follow, "principal": "ana"}
        self.system("WorkspaceTrust", workspace_id=WS, **told)

    def command(self, verb: str, reaction: str, **more: Any) -> None:
        told = {"run_key": None, "target_id": None, "principal": "ana", **more}
        self.system("ReactionCommand", workspace_id=WS, verb=verb, reaction=reaction, **told)

    def reset(self, reaction: str) -> None:
        """Close the breaker of a reaction over the workspace."""
        target = ids.text(ids.target_id(reaction, "workspace", WS, b""))
        self.command("reset", reaction, target_id=target)

    def adopt(self, path: str, verb: str = "adopt") -> None:
        told = {"path": path, "verb": verb, "content_id": None, "principal": "ana"}
        self.system("StampMoved", workspace_id=WS, **told)

    def put_frame(self, path: str, kind: str, content: bytes, **more: Any) -> None:
        raw, tree = path.encode(), more.pop("tree", self.tree)
        bare = None if tree is None else bare_id(tree, raw, WS, self.fold())
        told = {
            "locator_id": ids.text(ids.locator_id(WS, raw)),
            "workspace_id": WS,
            "path": path,
            "type": kind,
            "content": content,
            "content_ref": None,
            "basis": {"node_id": None, "bare_id": bare, "frames": []},
            "author": {"kind": "human", "id": "ana"},
            "meta": {},
            "depth": 0,
            "lineage": [],
            "root_trigger_id": None,
            "writer": None,
            **more,
        }
        self.system("FramePut", **told)

    def write(self, path: str, content: str | bytes) -> None:
        place = self.root_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, path: str) -> str | None:
        place = self.root_path / path
        return place.read_text() if place.exists() else None

    # ---- the watcher's part -----------------------------------------------------------------

    def fold(self) -> Stamps:
        """Take up what the journal has said since the last time."""
        records = self.records()
        for record in records[self.folded_records :]:
            self.stamps.note(record, self.driver.blobs.get)
            if isinstance(record, EventAdmitted):
                self._heard(record)
        self.folded_records = len(records)
        return self.stamps

    def _heard(self, record: EventAdmitted) -> None:
        if record.schema not in ("sys/FrameHeadChanged@1", "sys/CommandAsked@1"):
            return
        data = record.value or self.driver.blobs.get(record.value_hash)  # type: ignore[arg-type]
        told = canon.decode(data)  # type: ignore[arg-type]
        if record.schema == "sys/FrameHeadChanged@1":
            content = self.driver.blobs.get(canon.raw_of(told["content_id"]))
            head = head_of(told, content)
            self.heads[head.path, head.type] = head
            self.moved.append(head)
        else:
            raw = told["path"].encode()
            more = {"args": told["args"], "key": told["key"], "cause": told["cause"]}
            self.asked.append(Request(told["reaction"], raw, **more))

    def look(self) -> Tree:
        return look(self.root_path)

    def kept_texts(self) -> list[str]:
        """The hashes of all that the journal keeps."""
        return [canon.text_of(digest) for digest, _ in self.journal.blobs(WORLD)]

    def sight(self, after: Tree | None = None, **more: Any) -> Observation:
        self.fold()
        after = look(self.root_path) if after is None else after
        moved, self.moved = self.moved, []
        asked, self.asked = self.asked, []
        commands = [*asked, *more.pop("commands", ())]
        return Observation(
            world_id=WORLD,
            workspace_id=WS,
            n=self.n + 1,
            observed_at=self.clock.now_ns,
            before=self.tree,
            after=after,
            definitions=self.definitions,
            stamps=self.stamps,
            heads=self.heads,
            moved=moved,
            commands=commands,
            earlier=self.earlier,
            folding=self.folding,
            **more,
        )

    def observe(self, after: Tree | None = None, **more: Any) -> Derived:
        """One look at the directory; nothing is submitted when nothing has happened."""
        seen = self.sight(after, **more)
        before = None if seen.before is None else tree_id(seen.before)
        made = derive(seen)
        if before == tree_id(seen.after) and not made.triggers and not made.outcomes:
            return made
        self.system(
            "Observed",
            workspace_id=WS,
            n=seen.n,
            before=None if before is None else ids.text(before),
            after=ids.text(tree_id(seen.after)),
            stamps_at=self.world.seq,
            feed_upto=self.world.seq,
            flags=list(seen.flags),
            git_commit=seen.git_commit,
            observed_at=seen.observed_at,
            triggers=made.triggers,
            outcomes=made.outcomes,
            blobs=[*made.blobs, *listings(seen.after, seen.before or NOTHING).values()],
        )
        self.tree, self.n = seen.after, seen.n
        if self.workspace()["n"] == seen.n:
            self.earlier.accepted()
        return made

    # ---- the executors' part ----------------------------------------------------------------

    def perform(self, job: Published) -> None:
        """Carry out one published job, and settle it."""
        params = canon.decode(job.params)
        kept = Kept(self)
        outcome = self.broken.pop(job.effect, None)
        if outcome is None:
            outcome = self._outcome(job, params, kept)
        self.settle_with(job, outcome, kept.put_now)

    def perform_again(self, job: Published) -> None:
        """Carry out an open job once more, as a node does that was started again."""
        told = ("attempt", "node", "restart")
        self.do(Operate(self.clock.sample(), *told, intent=job.intent))
        self.perform(job._replace(attempt=job.attempt + 1))

    def outcome_of(self, job: Published) -> Outcome:
        """Carry out a job and tell nobody: the process dies before it can."""
        return self._outcome(job, self.param(job), Kept(self))

    def param(self, job: Published) -> Any:
        return canon.decode(job.params)

    def blob(self, hash_text: str) -> bytes | None:
        return self.driver.blobs.get(canon.raw_of(hash_text))

    def turn(self) -> Turn:
        """A tick of a cell by hand, with the blobs of this world."""

        def content(hash_text: str) -> bytes:
            data = self.blob(hash_text)
            assert data is not None, hash_text
            return data

        return Turn(self.world.logical_ns + 1, self.world.seq, WORLD, content, lambda *_: None)

    def restart(self, jump_ms: int) -> None:
        """Open the journal anew after the wall clock was moved, as the node does."""
        self.clock.now_ns += jump_ms * MS
        ahead = self.world.logical_ns - self.clock.now_ns
        if ahead > 0:
            self.clock.now_ns += ahead  # what AheadClock does for the node
        self.driver = open_driver(self.ports(), self.world.id, self.runner, None)

    def settle_with(
        self, job: Published, outcome: Outcome, blobs: Mapping[bytes, bytes] | None = None
    ) -> None:
        ended = Ended(job, outcome, self.clock.now_ns, self.clock.now_ns, blobs or {})
        ticket = self.driver.offer(Settle(self.clock.sample(), receipts_of(NODE, [ended])[0]))
        ticket.blobs = dict(blobs or {})
        self.driver.step()
        self.driver.flush()
        self.run()

    def _outcome(self, job: Published, params: Any, kept: Kept) -> Outcome:
        if job.effect in (*FILES, STEP):
            made = Job(
                world=job.world,
                intent=job.intent,
                dispatch_key=job.dispatch_key,
                effect=job.effect,
                executor=job.executor,
                params=params,
                grant=job.granted,
                attempt=job.attempt,
                deadline_ns=None,
                origin=None,  # type: ignore[arg-type]  # these executors do not ask
                secrets={},
                blobs=kept,
            )
            performer = self.files if job.effect in FILES else self.player
            return asyncio.run(performer.perform(made, Heard()))
        if job.effect == "sys/llm.generate@1":
            self.models.append(params)
            ref = kept.put(self.answer.encode())
            usage = {"calls": 1, "tokens": 10, "cents": 0}
            told = {"text": self.answer, "output_ref": ref, "finish": "stop", "usage": usage}
            return Ok(told, usage)
        if job.effect == "sys/telemetry.emit@1":
            return Ok({})
        return Failed("not_found", "test.nobody", f"nobody performs {job.effect}")

    def waiting_jobs(self) -> list[Published]:
        return [job for job in self.jobs.all[self.done :] if job.effect != TIMER]

    def work(self) -> int:
        """Perform all that is published, until nothing is."""
        count = 0
        while self.done < len(self.jobs.all):
            job = self.jobs.all[self.done]
            self.done += 1
            if job.effect != TIMER:
                self.perform(job)
                count += 1
        return count

    def step(self) -> Published:
        """Perform the next job that is published."""
        while self.jobs.all[self.done].effect == TIMER:
            self.done += 1
        job = self.jobs.all[self.done]
        self.done += 1
        self.perform(job)
        return job

    def settle_down(self, rounds: int = 50, **more: Any) -> int:
        """Look, work, look again, until nothing happens; the rounds that it took."""
        for count in range(rounds):
            made = self.observe(**more)
            more = {}
            if not self.work() and not made.triggers and not self.moved and not self.asked:
                self.fold()
                if not self.moved and not self.asked:
                    return count
        raise AssertionError("it does not come to rest")

    def pass_ms(self, ms: int) -> None:
        self.clock.now_ns += ms * MS
        self.do(Clock(self.clock.sample()))
        self.run()

    def rest(self, ms: int = 3_000) -> None:
        """Let a cooldown pass, and do what follows."""
        self.pass_ms(ms)
        self.work()
        self.settle_down()

    def begin(self) -> None:
        """The first look: what is there, it fires nothing."""
        self.observe()

    # ---- looking ----------------------------------------------------------------------------

    def records(self, kind: type | None = None) -> list[Any]:
        for frame in self.journal.read(self.world.id, self.read_upto):
            self.all_records += open_frame(frame.body)[3]
            self.read_upto = frame.last
        found = self.all_records
        return found if kind is None else [r for r in found if isinstance(r, kind)]

    def told(self, schema: str) -> list[Any]:
        """The values of all events of a schema."""
        found = []
        for record in self.records(EventAdmitted):
            if record.schema == f"sys/{schema}@1":
                data = record.value or self.driver.blobs.get(record.value_hash)
                found.append(canon.decode(data))  # type: ignore[arg-type]
        return found

    def outcomes(self, reaction: str | None = None) -> list[tuple[str, str | None]]:
        return [
            (row["outcome"], row["code"])
            for row in self.told("TriggerOutcome")
            if reaction is None or row["reaction"] == reaction
        ]

    def runs(self, reaction: str | None = None) -> list[dict[str, Any]]:
        """The settled attempts, in order."""
        return [
            row
            for row in self.told("RunSettled")
            if row["run_id"] is not None
            and row["outcome"] != "reused"
            and (reaction is None or row["reaction"] == reaction)
        ]

    def run_body(self, run_key: str) -> dict[str, Any]:
        return self.state("sys/reaction@1", run_key)["body"]

    def lane_body(self, reaction: str, path: str = "") -> dict[str, Any]:
        definition = next(each for each in self.definitions if each.name == reaction)
        kind = definition["target"]["kind"]
        key = ids.text(ids.target_id(reaction, kind, WS, path.encode()))
        return self.state("sys/lane@1", key)["body"]

    def workspace(self) -> dict[str, Any]:
        return self.state("sys/workspace@1", WS)["body"]

    def close(self) -> None:
        asyncio.run(self.files.close())


def lanes() -> Runners:
    """The runner of a world of built-in cells alone."""
    return Runners(_Nothing(), library=Library(), lanes={"builtin": Builtin()})


class _Nothing:
    def get(self, _digest: bytes) -> bytes | None:
        return None
