"""`Bundle`: the object on which the definitions of one file or package hang.

Nothing is global: two bundles in one process know nothing of each other.
A decorator notes what it was given and hands the function back unchanged; reading annotations and
making definitions waits for `build`, when everything the file says has been said.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, overload

from tallystick.errors import BadDefinition
from tallystick.values import names
from tallystick.workflow.records import Named, RecordType

F = TypeVar("F")

MARK: Final = "tally_workflow"


@dataclass(frozen=True, slots=True)
class On:
    """A subscription: which event, under which key, from whom, and whether it creates a cell."""

    event: type
    key: str | None = None
    origin: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    create: bool = True
    init: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything `@app.workflow` may be told."""

    name: str | None = None
    version: int = 1
    key: str | Mapping[type, str] | None = None
    on: Sequence[On] | None = None
    effects: Sequence[Any] = ()
    children: Sequence[Any] = ()
    reads: Sequence[Any] = ()
    lifecycle: str = "process"
    determinism: str = "checked"
    on_fault: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    state_version: int = 1
    accepts: Sequence[int] = ()
    summary: str | None = None
    tags: Sequence[str] = ()
    owners: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """A workflow as it was written: its code and its options."""

    bundle: Bundle
    name: str
    code: Any
    options: Options

    @property
    def is_async(self) -> bool:
        """True for `async def`: a workflow whose state is its own history."""
        return inspect.iscoroutinefunction(self.code)

    @property
    def tick(self) -> Any:
        """The reducer: the function, or the static `tick` of a class."""
        code = self.code
        return getattr(code, "tick", None) if isinstance(code, type) else code

    @property
    def init(self) -> Any:
        """The static `init` of a class, or None (X-11)."""
        return getattr(self.code, "init", None) if isinstance(self.code, type) else None


@dataclass(frozen=True, slots=True)
class PureSpec:
    """A pure function and what it serves as: `pure`, `upcast` or `migrate` (K-02)."""

    code: Any
    role: str
    between: tuple[Any, ...] = ()


class Bundle:
    """The definitions of one namespace: `app = Bundle("shop")`.

    `authority` has the grants and policies of the manifest, and `bindings` says for each workflow,
    by the name of its function, which grant each of its slots is.
    `governance` has its principals, with their roles and scopes, and its rules for changes.
    """

    def __init__(
        self,
        namespace: str,
        *,
        limits: Mapping[str, int] | None = None,
        authority: Mapping[str, Any] | None = None,
        bindings: Mapping[str, Mapping[str, str]] | None = None,
        governance: Mapping[str, Any] | None = None,
        definitions: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if not names.is_definition(f"{namespace}/x@1") or namespace == "sys":
            hint = "lower-case letters, digits, dots and dashes; sys is ours"
            message = f"{namespace!r} is not a namespace"
            raise BadDefinition(message, code="def.bad_name", hint=hint)
        self.namespace = namespace
        self.limits = dict(limits or {})
        self.authority = authority
        self.bindings = dict(bindings or {})
        self.governance = governance
        self.definitions = tuple(definitions)
        self.workflows: dict[str, WorkflowSpec] = {}
        self.pures: list[PureSpec] = []
        self._names: dict[type, str] = {}
        self.samples: dict[str, Mapping[str, Any]] = {}
        self.invariants: dict[str, list[Any]] = {}

    @overload
    def workflow(self, code: F, /) -> F: ...
    @overload
    def workflow(self, /, **options: Any) -> Callable[[F], F]: ...
    def workflow(self, code: Any = None, /, **options: Any) -> Any:
        """Define a workflow: `@app.workflow(key="order_id", effects=[Charge])`.

        Refuses a second workflow of the same name and options that do not exist.
        """
        known = [each.name for each in fields(Options)]
        for wrong in (name for name in options if name not in known):
            hint = names.nearest(wrong, known) or f"the options are {', '.join(known)}"
            message = f"a workflow has no option {wrong}"
            raise BadDefinition(message, code="def.unknown_field", hint=hint)
        said = Options(**options)

        def define(code: Any) -> Any:
            name = Named(said.name, said.version).full(self.namespace, code.__name__)
            if name in self.workflows:
                raise BadDefinition(f"{name} is defined twice", code="def.duplicate")
            self.workflows[name] = WorkflowSpec(self, name, code, said)
            setattr(code, MARK, self.workflows[name])
            return code

        return define if code is None else define(code)

    def pure(self, code: F) -> F:
        """Mark a function of one record that may emit nothing (K-02)."""
        self.pures.append(PureSpec(code, "pure"))
        return code

    def upcast(self, old: type, new: type) -> Callable[[F], F]:
        """Mark the function that reads an older event as the newer one (X-20)."""
        return self._between("upcast", old, new)

    def migrate(self, workflow: Any, old: int, new: int) -> Callable[[F], F]:
        """Mark the function that carries a state from one version to the next (X-21)."""
        return self._between("migrate", workflow, old, new)

    def check(self, workflow: Any, **samples: Any) -> None:
        """Samples for the model checker: `events=[...]`, `values={Charge: [...]}`."""
        self.samples[name_of_workflow(workflow)] = samples

    def invariant(self, workflow: Any) -> Callable[[F], F]:
        """Mark a function of `(cell, trace)` that holds at every node of the model checker."""

        def note(code: F) -> F:
            self.invariants.setdefault(name_of_workflow(workflow), []).append(code)
            return code

        return note

    def name_of(self, cls: type) -> str:
        """The definition name of a record, effect or dataclass in this bundle."""
        known = self._names.get(cls)
        if known is None:
            named = cls.tally_named if isinstance(cls, RecordType) else Named(None, 1)
            known = self._names[cls] = named.full(self.namespace, cls.__name__)
        return known

    def _between(self, role: str, *ends: Any) -> Callable[[F], F]:
        def note(code: F) -> F:
            self.pures.append(PureSpec(code, role, ends))
            return code

        return note


def spec_of(workflow: Any) -> WorkflowSpec:
    """The specification behind a decorated function or class; refuses anything else."""
    found = getattr(workflow, MARK, None)
    if not isinstance(found, WorkflowSpec):
        message = f"{workflow!r} is not a workflow"
        raise BadDefinition(message, code="ref.workflow", hint="decorate it with @app.workflow")
    return found


def name_of_workflow(workflow: Any) -> str:
    """The name of a workflow that is given as code or by name."""
    return workflow if isinstance(workflow, str) else spec_of(workflow).name
