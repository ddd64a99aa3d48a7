"""`check_workflow`: every short history of one cell, by breadth, with the shipped tick.

The first violation that is found is the shortest.
A world is folded as in a node, but for the chain and the journal; each move is tried on a twin of
the world it starts from.
Other workflows of the app get no events here; children run, because their ends are answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected
from tallystick.kernel.draft import Frame
from tallystick.kernel.twin import twin
from tallystick.kernel.world import World
from tallystick.model.records import IntentOpened
from tallystick.testing import laws
from tallystick.testing.moves import Move, Send, Stop
from tallystick.testing.situation import Budget, Situation, content_of
from tallystick.testing.subject import Subject, cells_of, subject_of

TREE_DEPTH: Final = 8
DEPTH: Final = 12
STATES_MAX: Final = 100_000


class Example(NamedTuple):
    """A law that is broken, in which words, and the shortest way there."""

    law: str
    detail: str
    moves: tuple[Move, ...]


class Report(NamedTuple):
    """What a search found; `cut` says what was left out, and is empty for a complete one."""

    subject: Subject
    nodes: int
    edges: int
    moves: int
    cut: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def complete(self) -> bool:
        """True when every situation of the model was looked at."""
        return not self.cut


def check_workflow(
    app: Any,
    workflow: Any,
    *,
    depth: int = DEPTH,
    states_max: int = STATES_MAX,
    any_timer: bool = False,
) -> Report:
    """Look at every history of a workflow up to a depth; violations are in the report.

    Refuses an app whose samples begin no cell (`check.no_start`) or two (`check.two_cells`).
    """
    subject = subject_of(app, workflow)
    search = Search(subject, any_timer=any_timer)
    if subject.spec.is_async:
        depth = min(depth, TREE_DEPTH)
    return search.run(depth, states_max)


class Search:
    """One search by breadth."""

    def __init__(self, subject: Subject, *, any_timer: bool = False) -> None:
        self._subject = subject
        self._player = subject.player(any_timer=any_timer)
        self._spec, self._ident = subject.spec, subject.ident
        self._invariants = subject.app.invariants.get(subject.spec.name, ())
        self._known: dict[bytes, Situation] = {}
        self._all: list[Situation] = []
        self._open: list[int] = []  # numbers of situations behind which something was left out
        self._explained: list[int] = []  # those that break a law, so that `ends` need not say more
        self._cut: dict[str, None] = {}
        self._found: dict[tuple[str, str], Example] = {}
        self._moves = 0
        self._edges = 0

    def run(self, depth: int, states_max: int = STATES_MAX) -> Report:
        """Look at everything that can be reached within the bounds."""
        subject = self._subject
        budget = Budget((0,) * len(subject.samples.events), False, frozenset())
        start = Situation(subject.world, subject.now_ns, budget, None)
        self._add(start)
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for after in self._expanded(at):
                known = self._known.get(after.digest)
                if known is None:
                    if at.depth >= depth:
                        self._leave_out(at, f"depth {depth}")
                        continue
                    if len(self._all) >= states_max:
                        self._leave_out(at, f"{states_max} states")
                        continue
                    self._add(after)
                    queue.append(after)
                    known = after
                self._edges += 1
                if not isinstance(after.move, Stop):
                    at.next.append(known.number)
            at.world = None
        self._judge_ends()
        return self._report()

    def _report(self) -> Report:
        found = sorted(self._found.values(), key=lambda example: len(example.moves))
        counts = (len(self._all), self._edges, self._moves)
        return Report(self._subject, *counts, tuple(self._cut), tuple(found))

    # ---- one situation ----------------------------------------------------------------------

    def _add(self, at: Situation) -> None:
        assert at.world is not None, "a new situation has its world"
        at.number = len(self._all)
        at.ended = laws.has_ended(at.world, self._spec, self._ident)
        self._known[at.digest] = at
        self._all.append(at)

    def _expanded(self, at: Situation) -> Iterable[Situation]:
        world = at.world
        assert world is not None, "a situation is looked at once"
        progress = False
        moves = self._player.moves(world, at.budget.sent, stopped=at.budget.stopped)
        for move in moves:
            after = self._after(at, world, move)
            if after is None:
                continue
            progress = progress or (isinstance(move, Send) and after.content != at.content)
            if not self._judged(at, after):
                yield after
        if not progress and not at.ended and laws.is_idle(world, self._ident):
            self._judge_stuck(at, world)

    def _after(self, at: Situation, world: World, move: Move) -> Situation | None:
        there = twin(world)
        played = self._player.play(there, at.now_ns, move)
        self._moves += 1
        if played is None:
            return None
        frames, now_ns = played
        records = tuple([record for frame in frames for record in frame.records])
        self._same_cell(records)
        sent, stopped, doubles = at.budget
        fresh = frozenset(laws.unkeyed(records, self._ident))
        if isinstance(move, Send) and not move.again:
            sent = (*sent[: move.sample], sent[move.sample] + 1, *sent[move.sample + 1 :])
        budget = Budget(sent, stopped or isinstance(move, Stop), doubles | fresh)
        after = Situation(there, now_ns, budget, at)
        after.move = move
        after.records = records
        self._judge_frames(after, frames, world)
        return after

    def _same_cell(self, records: Iterable[Any]) -> None:
        if any(ident != self._ident for ident in cells_of(records, self._spec)):
            message = f"the samples of {self._spec.name} reach two cells"
            hint = "give all sample events the same key"
            raise Rejected(message, code="check.two_cells", hint=hint)

    # ---- judging ----------------------------------------------------------------------------

    def _judge_frames(self, after: Situation, frames: list[Frame], before: World) -> None:
        """What only the frames of a move show."""
        opened = {
            record.intent: record.effect
            for record in after.records
            if isinstance(record, IntentOpened)
        }

        def effect_of(intent: bytes) -> str:
            held = before.intents.get(intent)
            return opened[intent] if held is None else held.record.effect

        for frame in frames:
            self._note("left_open", laws.left_open(frame.records, self._ident, effect_of), after)

    def _judged(self, at: Situation, after: Situation) -> bool:
        """Judge a move; True when what follows it is not worth looking at."""
        move = after.move
        if isinstance(move, Send) and move.copy == 1:
            detail = laws.doubled(after.records, self._ident, at.budget.doubles)
            self._note("doubled", detail, after)
        self._judge_invariants(after)
        fault = laws.faulted(after.records)
        self._note("fault", fault, after)
        if fault is not None:
            self._explained.append(at.number)
        return fault is not None

    def _judge_invariants(self, after: Situation) -> None:
        if not self._invariants:
            return
        assert after.world is not None, "a new situation has its world"
        reading = self._subject.reading
        records = [record for part in after.path() for record in part.records]
        cell, trace = reading.cell(after.world, self._ident), reading.trace(records)
        for invariant in self._invariants:
            detail = self._subject.broken(invariant, cell, trace)
            self._note(laws.INVARIANT + invariant.__name__, detail, after)

    def _judge_stuck(self, at: Situation, world: World) -> None:
        """Nothing is open and no sample moves the cell: does one more of them?"""
        for number, count in enumerate(at.budget.sent):
            more = twin(world)
            played = self._player.play(more, at.now_ns, Send(number, count + 2))
            if played is not None and content_of(more, at.now_ns) != at.content:
                self._leave_out(at, "samples sent more than twice")
                return
        self._note("stuck", "nothing is open, and the cell has not ended", at)
        self._explained.append(at.number)

    def _judge_ends(self) -> None:
        """Every situation leads to an end, to one that is explained, or to what was left out."""
        before: list[list[int]] = [[] for _ in self._all]
        for at in self._all:
            for number in at.next:
                before[number].append(at.number)
        todo = [at.number for at in self._all if at.ended]
        todo += [*self._open, *self._explained]
        seen = bytearray(len(self._all))
        while todo:
            number = todo.pop()
            if not seen[number]:
                seen[number] = 1
                todo += before[number]
        for at in self._all:
            if not seen[at.number]:
                self._note("ends", "no end can be reached from here", at)
                return

    def _note(self, law: str, detail: str | None, at: Situation) -> None:
        if detail is None:
            return
        moves = tuple(part.move for part in at.path() if part.move is not None)
        self._found.setdefault((law, detail), Example(law, detail, moves))

    def _leave_out(self, at: Situation, why: str) -> None:
        self._cut[why] = None
        self._open.append(at.number)
