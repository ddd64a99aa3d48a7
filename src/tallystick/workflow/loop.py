"""The loop of an async workflow: tasks of one cell, run until all are blocked.

Theory of operation.
One delivery resumes the loop; ready tasks run first-in first-out; what they ask for is numbered in
the order of asking.
The loop holds no time, no chance and no state of its own that is not a function of what it was
given, so running it again over the same deliveries gives the same requests.
"""

# tidy: tasks, traps and requests of one loop are one story.
from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tallystick.errors import LimitExceeded, TickFault
from tallystick.workflow import outside, traps
from tallystick.workflow.flow import Flow
from tallystick.workflow.traps import Cancelled, FlowTimeout, Trap


class Restarted(Exception):  # noqa: N818 - carries a value out of the loop
    """A checkpoint: the flow begins anew from this value."""

    def __init__(self, value: Any) -> None:
        super().__init__("checkpoint")
        self.value = value


class Strand(Trap):
    """A task of the flow: a coroutine; awaiting it joins it."""

    __slots__ = ("children", "coroutine", "ended", "error", "parent", "stopped", "trap", "value")

    def __init__(self, coroutine: Any, parent: Strand | None) -> None:
        self.coroutine = coroutine
        self.parent = parent
        self.children: list[Strand] = []
        self.trap: Trap | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.ended = -1
        self.stopped = False

    @property
    def done(self) -> bool:
        """True once it has a value or an error."""
        return self.ended >= 0


class Scope:
    """A time limit of one task."""

    __slots__ = ("over", "task")

    def __init__(self, task: Strand) -> None:
        self.task = task
        self.over = False


class Step(NamedTuple):
    """What a ready task is resumed with."""

    task: Strand
    value: Any
    error: BaseException | None = None


class Loop:
    """The tasks, the open requests and the unread events of one cell."""

    def __init__(self, ctx: Flow, inbox_max: int) -> None:
        self.ctx = ctx
        self.inbox: deque[Any] = deque()
        self._inbox_max = inbox_max
        self._ready: deque[Step] = deque()
        self._open: dict[str, Strand | Scope] = {}
        self._waiting: list[tuple[Strand, traps.Receive]] = []
        self._joining: list[tuple[Strand, traps.Join]] = []
        self._tasks: list[Strand] = []
        self._asked = 0
        self._ends = 0
        self._cancelled = False
        self.main: Strand | None = None

    # ---- deliveries -------------------------------------------------------------------------

    def begin(self, function: Callable[..., Any], start: Any) -> None:
        """Run the flow from its start until it is blocked."""
        self.main = self._task(function(self.ctx, start), None)
        self._run()

    def expects(self, corr: str) -> bool:
        """True when an open request of this flow has that correlation."""
        return corr in self._open

    def settle(self, corr: str, said: Any) -> None:
        """The outcome of an open request."""
        held = self._open.pop(corr)
        if isinstance(held, Scope):
            assert not held.task.done, "a limit ends with its block, and that with its task"
            held.over = True
            self._interrupt(held.task, FlowTimeout())
        else:
            self._resume(held, said)
        self._run()

    def event(self, event: Any) -> None:
        """An event: for the first task that waits for it, else for the inbox."""
        for at, (task, trap) in enumerate(self._waiting):
            if _takes(trap, event):
                del self._waiting[at]
                self._resume(task, event)
                self._run()
                return
        if len(self.inbox) >= self._inbox_max:
            raise LimitExceeded("inbox_max", self._inbox_max, len(self.inbox) + 1)
        self.inbox.append(event)

    def cancel(self) -> None:
        """Cancel child tasks in the order of their start, then the main task, once."""
        assert self.main is not None, "a flow has begun"
        if self._cancelled:
            return
        self._cancelled = True
        for task in self._tasks:
            if task is not self.main and not task.done:
                self._interrupt(task, Cancelled())
        self._interrupt(self.main, Cancelled())
        self._run()

    def close(self) -> None:
        """Let the coroutines go; what they do on the way out goes nowhere."""
        for task in reversed(self._tasks):
            # An await or a stop on the way out is swallowed: nobody is left to tell.
            with suppress(BaseException):
                task.coroutine.close()
        self._tasks = []

    def __del__(self) -> None:
        """A live flow that nobody holds any more is closed like one that was evicted."""
        self.close()

    # ---- running ----------------------------------------------------------------------------

    def _run(self) -> None:
        while self._ready:
            task, value, error = self._ready.popleft()
            task.trap = None
            self._step(task, value, error)

    def _step(self, task: Strand, value: Any, error: BaseException | None) -> None:
        """Run one task until it waits or ends."""
        while True:
            try:
                if error is not None:
                    trap = task.coroutine.throw(error)
                else:
                    trap = task.coroutine.send(value)
            except StopIteration as end:
                self._finished(task, end.value, None)
                return
            except (Exception, Cancelled) as why:  # noqa: BLE001 - it is the end of the task
                self._finished(task, None, why)
                return
            if not isinstance(trap, Trap):
                name = type(trap).__name__
                raise TickFault(f"{name} is not of this flow", code="foreign_await")
            value, error = None, None
            done, value = self._trap(task, trap)
            if not done:
                task.trap = trap
                return

    def _trap(self, task: Strand, trap: Trap) -> tuple[bool, Any]:  # tidy: one case for each trap
        """Do what a trap says: (True, value) when the task goes on at once."""
        match trap:
            case traps.Ask(params=params, label=label, key=key, timeout_ns=timeout_ns):
                corr = self._corr(label)
                self.ctx.ask(params, corr, key=key, timeout_ns=timeout_ns)
                self._open[corr] = task
            case traps.Sleep(span_ns=span):
                self._open[self._timer("sleep", span)] = task
            case traps.Child():
                corr = self._corr("call" if trap.wait else "spawn")
                self.ctx.child(trap, corr)
                self._open[corr] = task
            case traps.Receive():
                return self._receive(task, trap)
            case traps.Start(awaited=awaited):
                return True, self._task(_coroutine(awaited), task)
            case traps.Join(tasks=tasks, first=first):
                if _joined(tasks, first=first):
                    return True, None
                self._joining.append((task, trap))
            case traps.Stop(tasks=tasks):
                for each in tasks:
                    if not each.done:
                        each.stopped = True
                        self._interrupt(each, Cancelled())
                return True, None
            case traps.Limit(span_ns=span, scope=scope):
                return True, self._limit(task, span, scope)
            case Strand():
                return self._join(task, trap)
            case traps.Restart(value=value):
                self._restart(task, value)
            case _:
                raise AssertionError(trap)
        return False, None

    def _receive(self, task: Strand, trap: traps.Receive) -> tuple[bool, Any]:
        for at, event in enumerate(self.inbox):
            if _takes(trap, event):
                del self.inbox[at]
                return True, event
        self._waiting.append((task, trap))
        return False, None

    def _join(self, task: Strand, other: Strand) -> tuple[bool, Any]:
        if not other.done:
            self._joining.append((task, traps.Join([other])))
            return False, None
        if other.error is not None:
            self._ready.append(Step(task, None, other.error))
            return False, None
        return True, other.value

    def _limit(self, task: Strand, span: int | None, scope: Scope | None) -> Scope | None:
        if span is not None:
            made = Scope(task)
            self._open[self._timer("timeout", span)] = made
            return made
        for corr, held in list(self._open.items()):
            if held is scope:
                self._abandon(corr)
        return None

    def _restart(self, task: Strand, value: Any) -> None:
        others = [each for each in self._tasks if each is not task and not each.done]
        if task is not self.main or others or self._open:
            message = "a checkpoint with other tasks or open requests"
            raise TickFault(message, code="checkpoint_busy")
        raise Restarted(value)

    # ---- tasks ------------------------------------------------------------------------------

    def _task(self, coroutine: Any, parent: Strand | None) -> Strand:
        task = Strand(coroutine, parent)
        if parent is not None:
            parent.children.append(task)
        self._tasks.append(task)
        self._ready.append(Step(task, None))
        return task

    def _finished(self, task: Strand, value: Any, error: BaseException | None) -> None:
        left = [child for child in task.children if not child.done]
        task.children = []
        if left:
            # A task ends after its children: a good end waits for them, a bad one cancels them.
            if error is not None:
                for child in left:
                    self._interrupt(child, Cancelled())
            task.coroutine = _after(left, value, error)
            self._ready.append(Step(task, None))
            return
        task.value, task.error = value, error
        task.ended = self._ends
        self._ends += 1
        self._tasks.remove(task)
        for waiter in list(self._joining):
            other, trap = waiter
            if task in trap.tasks and _joined(trap.tasks, first=trap.first):
                self._joining.remove(waiter)
                plain = isinstance(other.trap, Strand)
                failed = task.error if plain else None
                self._ready.append(Step(other, task.value if plain else None, failed))

    def _resume(self, task: Strand, value: Any) -> None:
        self._ready.append(Step(task, value))

    def _interrupt(self, task: Strand, error: BaseException) -> None:
        """Raise an exception where a task waits; what it waited for is abandoned."""
        for corr, held in list(self._open.items()):
            if held is task:
                self._abandon(corr)
        self._waiting = [row for row in self._waiting if row[0] is not task]
        self._joining = [row for row in self._joining if row[0] is not task]
        self._ready = deque(step for step in self._ready if step.task is not task)
        self._ready.append(Step(task, None, error))

    # ---- requests ---------------------------------------------------------------------------

    def _corr(self, label: str) -> str:
        self._asked += 1
        return f"{label}#{self._asked}"

    def _timer(self, label: str, span: int) -> str:
        corr = self._corr(label)
        due = self.ctx.now + max(span, 0)
        self.ctx.ask(outside.Timer(deliver_at_ns=due, key=corr), corr)
        return corr

    def _abandon(self, corr: str) -> None:
        del self._open[corr]
        self.ctx.ask(outside.Cancel(issuer_ref=corr), self._corr("cancel"))


def _takes(trap: traps.Receive, event: Any) -> bool:
    return isinstance(event, trap.cls) and (trap.where is None or bool(trap.where(event)))


def _joined(tasks: list[Strand], *, first: bool) -> bool:
    return any(t.done for t in tasks) if first else all(t.done for t in tasks)


def _coroutine(awaited: Any) -> Any:
    if inspect.iscoroutine(awaited):
        return awaited
    if isinstance(awaited, Trap):
        return _await(awaited)
    message = f"{type(awaited).__name__} cannot be awaited in a flow"
    raise TickFault(message, code="foreign_await")


async def _await(trap: Trap) -> Any:
    return await trap


async def _after(left: list[Strand], value: Any, error: BaseException | None) -> Any:
    await traps.Join(left)
    if error is not None:
        raise error
    return value
