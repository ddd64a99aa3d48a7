"""What an async workflow may wait for.

Every awaitable here is a *trap*: it yields itself to the loop of the cell (`workflow/loop.py`),
which alone decides when to go on.
Nothing waits in the process: a blocked flow is a row in its cell's history.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn, Self, TypeVar

from tallystick.workflow.bundle import name_of_workflow
from tallystick.workflow.codec import span_ns
from tallystick.workflow.effects import Effect
from tallystick.workflow.outcomes import Failed, Ok
from tallystick.workflow.retry import Backoff

R = TypeVar("R")
E = TypeVar("E")

Awaitable = Any  # a trap, a task or a coroutine of this flow


class Fail(Exception):  # noqa: N818 - it is how a flow fails, not an error of it
    """Ends the cell as failed, with a code."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message


class EffectFailed(Exception):  # noqa: N818 - named by what happened
    """An effect did not end well; `outcome` says how, with its class."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(f"{type(outcome).__qualname__} {outcome.code}: {outcome.message}")
        self.outcome = outcome
        self.kind = outcome.kind
        self.code = outcome.code
        self.retryable = outcome.retryable


class FlowTimeout(Exception):  # noqa: N818 - named by what happened
    """The time of an `async with timeout(...)` is over."""


class Cancelled(BaseException):
    """Somebody asked this task to stop; a flow may clean up, and should not go on."""


class Trap:
    """Something to wait for; awaiting it hands it to the loop."""

    __slots__ = ()

    def __await__(self) -> Generator[Self, Any, Any]:
        """Yield to the loop; what it sends back is the result."""
        return (yield self)


class Ask(Trap):
    """An effect is asked for; its outcome comes back."""

    __slots__ = ("key", "label", "params", "timeout_ns")

    def __init__(
        self, params: Any, label: str, key: bytes | None = None, timeout_ns: int | None = None
    ) -> None:
        self.params = params
        self.label = label
        self.key = key
        self.timeout_ns = timeout_ns


class Sleep(Trap):
    """Time passes."""

    __slots__ = ("span_ns",)

    def __init__(self, span: int | str) -> None:
        self.span_ns: int = span_ns(span)


class Child(Trap):
    """A child cell is started; `wait` says whether its end is waited for."""

    __slots__ = ("event", "key", "wait", "workflow")

    def __init__(self, workflow: str, key: Any, event: Any, *, wait: bool) -> None:
        self.workflow = workflow
        self.key = key
        self.event = event
        self.wait = wait


class Receive(Trap):
    """The next unread event of a class."""

    __slots__ = ("cls", "where")

    def __init__(self, cls: type, where: Callable[[Any], bool] | None) -> None:
        self.cls = cls
        self.where = where


class Start(Trap):
    """A new task of this cell; goes on at once."""

    __slots__ = ("awaited",)

    def __init__(self, awaited: Awaitable) -> None:
        self.awaited = awaited


class Join(Trap):
    """Tasks have ended: all of them, or with `first` any of them."""

    __slots__ = ("first", "tasks")

    def __init__(self, tasks: list[Any], *, first: bool = False) -> None:
        self.tasks = tasks
        self.first = first


class Stop(Trap):
    """Tasks are cancelled; goes on at once."""

    __slots__ = ("tasks",)

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks


class Limit(Trap):
    """A time limit for what this task awaits begins, or with a scope ends; goes on at once."""

    __slots__ = ("scope", "span_ns")

    def __init__(self, span: int | None, scope: Any = None) -> None:
        self.span_ns = span
        self.scope = scope


class Restart(Trap):
    """The flow begins anew from a value; this await never returns."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


# ---- what a workflow says -------------------------------------------------------------------


async def outcome(
    params: Any,
    *,
    key: str | None = None,
    timeout: int | str | None = None,  # noqa: ASYNC109 - the kernel's deadline, not a wait of ours
) -> Any:
    """Ask for an effect and wait: `E.Ok`, `E.Error` ... to match."""
    raw = None if key is None else key.encode()
    return await Ask(params, type(params).__name__, raw, span_ns(timeout))


async def effect(
    params: Effect[R],
    *,
    key: str | None = None,
    timeout: int | str | None = None,  # noqa: ASYNC109 - as above
    retry: Backoff | None = None,
) -> R:
    """Ask for an effect and wait for its value; raises `EffectFailed`.

    With `retry` a failure that may pass is tried again after a wait; each attempt is its own
    intent, under its own key if one is given (K-47).
    """
    attempt = 0
    while True:
        named = key if key is None or attempt == 0 else f"{key}/{attempt}"
        said = await outcome(params, key=named, timeout=timeout)
        if isinstance(said, Ok):
            value: R = said.value
            return value
        attempt += 1
        passing = said.retryable or said.kind == "timeout"
        wait = retry.wait_ns(attempt, _NoJitter) if retry is not None and passing else None
        if wait is None:
            raise EffectFailed(said)
        await Sleep(wait)


class _NoJitter:
    """Waits inside a flow are exact: the loop has no tick of its own to draw from."""

    @staticmethod
    def below(_limit: int) -> int:
        return 0


async def sleep(span: int | str) -> None:
    """Wait for a span of logical time."""
    await Sleep(span)


async def receive(event: type[E], where: Callable[[E], bool] | None = None) -> E:
    """The next unread event of a class, for which `where` holds."""
    found: E = await Receive(event, where)
    return found


async def gather(*awaited: Awaitable, fail_fast: bool = False) -> list[Any]:
    """Results in the order of the arguments; raises the first failure, and abandons nothing.

    With `fail_fast` the others are cancelled at the first failure, and then waited for.
    """
    tasks = [await Start(each) for each in awaited]
    try:
        if fail_fast:
            while any(not task.done for task in tasks):
                await Join([task for task in tasks if not task.done], first=True)
                if any(task.error is not None for task in tasks):
                    await Stop(tasks)
                    break
        await Join(tasks)
    except (Exception, Cancelled):
        await Stop(tasks)
        await Join(tasks)
        raise
    failed = sorted((t for t in tasks if t.error is not None), key=lambda task: task.ended)
    if failed:
        raise failed[0].error
    return [task.value for task in tasks]


async def wait_first(*awaited: Awaitable) -> tuple[int, Any]:
    """Index and value of the first that is consumed; the rest is cancelled."""
    tasks = [await Start(each) for each in awaited]
    try:
        await Join(tasks, first=True)
    finally:
        await Stop(tasks)
        await Join(tasks)
    index = min((t.ended, i) for i, t in enumerate(tasks) if not t.stopped)[1]
    if tasks[index].error is not None:
        raise tasks[index].error
    return index, tasks[index].value


async def start(awaited: Awaitable) -> Any:
    """A task of this cell; `await task` joins it."""
    return await Start(awaited)


async def spawn(workflow: Any, key: Any, event: Any) -> None:
    """Start a child cell; nobody waits for its end."""
    said = await Child(name_of_workflow(workflow), key, event, wait=False)
    if isinstance(said, Failed):
        raise EffectFailed(said)


async def call(workflow: Any, key: Any, event: Any) -> Any:
    """Start a child cell and wait for its result; raises `EffectFailed` when it fails."""
    said = await Child(name_of_workflow(workflow), key, event, wait=True)
    if isinstance(said, Failed):
        raise EffectFailed(said)
    return said.value


async def checkpoint(value: Any) -> NoReturn:
    """Continue as new: the flow begins again from `value` with an empty history."""
    await Restart(value)
    raise AssertionError("a restarted flow does not go on")


class timeout:  # noqa: N801 - it is used like a keyword
    """`async with timeout("2d"):` raises `FlowTimeout` when what is inside takes longer."""

    def __init__(self, span: int | str) -> None:
        self._span = span_ns(span)
        self._scope: Any = None

    async def __aenter__(self) -> Self:
        """Begin the limit."""
        self._scope = await Limit(self._span)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        """End the limit."""
        await Limit(None, self._scope)
