"""Hypothesis strategies from the types that a workflow is written with.

`strategy(T)` gives values of an annotation, `receipts(E)` answers to an effect, good and bad, and
`histories(workflow)` whole histories; what fails shrinks to something short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from tallystick.errors import SchemaMismatch, UnknownName
from tallystick.testing.answers import Said, denied, duplicate, error, malformed, ok, timeout
from tallystick.testing.world import TestWorld
from tallystick.values.schema import Schema, compile_schema
from tallystick.values.schema.annotations import type_of
from tallystick.values.schema.bounds import Bounds
from tallystick.values.schema.nodes import (
    Bounded,
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    Secret,
    SetOf,
    Type,
    Variant,
    is_unit,
)
from tallystick.values.schema.smallest import smallest
from tallystick.workflow.bundle import spec_of
from tallystick.workflow.codec import codec_of
from tallystick.workflow.effects import EffectType
from tallystick.workflow.shape import shape_of

Strategy = st.SearchStrategy[Any]
_I64: Final = 2**63
_LETTERS: Final = st.characters(codec="utf-8")
_TEXTS: Final = st.text(_LETTERS, max_size=12)
_HASHES: Final = st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex())
_FREE: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-_I64, _I64 - 1) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=4,
)
_SCALARS: Final[dict[str, Strategy]] = {
    "bool": st.booleans(),
    "int": st.integers(-_I64, _I64 - 1),
    "nat": st.integers(0, _I64 - 1),
    "dec128": st.decimals(-(10**9), 10**9, places=2).map(str),
    "bytes": st.binary(max_size=16),
    "text": _TEXTS,
    "time": st.integers(0, _I64 - 1),
    "duration": st.integers(0, _I64 - 1),
    "hash": _HASHES,
    "uuid": st.uuids().map(str),
    "unit": st.none(),
    "json": _FREE,
}
_SPANS: Final = ("1ms", "1s", "1m", "2h", "3d")


def strategy(annotation: Any) -> Strategy:
    """Values of an annotation or a record, as code of a workflow sees them."""
    schema = _schema(annotation)
    codec = codec_of(annotation)
    return _plain(schema.node).filter(_fits(schema)).map(codec.value)


def receipts(effect: Any) -> st.SearchStrategy[Said]:
    """What may be said to an open request for an effect: done, failed, unreadable, twice, no."""
    if not isinstance(effect, EffectType):
        hint = "give a subclass of Effect"
        raise UnknownName(f"{effect!r} is no effect", code="ref.effect", hint=hint)
    good = strategy(effect.tally_effect.receipt).map(ok)
    bad = st.builds(error, st.just("drawn"), retryable=st.booleans())
    others = st.sampled_from([malformed(), denied(), timeout(at_once=True)])
    return st.one_of(good, bad, others, good.map(duplicate))


class Step(NamedTuple):
    """One thing of a history: `send` an event, `answer` the nth open request, let time `pass`."""

    act: str
    what: Any
    nth: int = 0


class History(NamedTuple):
    """What happens to a world, in order."""

    steps: tuple[Step, ...]

    def play(self, world: TestWorld) -> TestWorld:
        """Do all of it; an answer to what is not open, or cannot time out, is left out."""
        for act, what, nth in self.steps:
            if act == "send":
                world.send(what)
            elif act == "pass":
                world.advance(what)
            else:
                _answer(world, what, nth)
        return world


def histories(workflow: Any, max: int = 30) -> st.SearchStrategy[History]:  # noqa: A002 - the word of the kit
    """Histories of a workflow: its events, answers to its effects, and passing time.

    Few different events are drawn for one history, so that the same comes again.
    """
    shape = shape_of(spec_of(workflow))
    events = st.one_of([strategy(cls) for cls in shape.arms.values()])
    effects = [cls for cls in shape.effects.values() if cls.tally_effect.executor is not None]
    others: list[Strategy] = [st.sampled_from(_SPANS).map(_passed)]
    others += [st.builds(Step, st.just("answer"), _pair(cls), st.integers(0, 3)) for cls in effects]

    def among(pool: list[Any]) -> Strategy:
        steps = st.one_of([st.sampled_from(pool).map(_sent), *others])
        return st.lists(steps, max_size=max)

    return st.lists(events, min_size=1, max_size=3).flatmap(among).map(tuple).map(History)


def _pair(effect: Any) -> Strategy:
    return st.tuples(st.just(effect), receipts(effect))


def _sent(event: Any) -> Step:
    return Step("send", event)


def _passed(span: str) -> Step:
    return Step("pass", span)


def _answer(world: TestWorld, what: tuple[Any, Said], nth: int) -> None:
    effect, said = what
    jobs = world.open(effect)
    if not jobs:
        return
    job = jobs[nth % len(jobs)]
    if job.deadline_ns is not None or said != timeout(at_once=True):
        said.settle(world, job)
        world.run()


# ---- types ----------------------------------------------------------------------------------


def _schema(annotation: Any) -> Schema:
    def no_refs(name: str) -> Any:
        raise KeyError(name)

    return compile_schema("testing/drawn@1", type_of(annotation), no_refs)


def _fits(schema: Schema) -> Callable[[Any], bool]:
    def fits(plain: Any) -> bool:
        try:
            schema.admit(plain)
        except SchemaMismatch:
            return False
        return True

    return fits


def _plain(node: Type) -> Strategy:
    match node:
        case Scalar(kind):
            return _SCALARS[kind]
        case Record(fields):
            return st.fixed_dictionaries({name: _plain(field) for name, field in fields})
        case Variant(arms):
            return st.one_of([_arm(tag, arm) for tag, arm in arms])
        case ListOf(item):
            return st.lists(_plain(item), max_size=4)
        case SetOf(item):
            return st.lists(_plain(item), max_size=3, unique_by=repr)
        case MapOf(key, value):
            return st.dictionaries(_SCALARS[key], _plain(value), max_size=3)
        case Option(inner):
            return st.none() | _plain(inner)
        case Secret(inner):
            return _plain(inner)
        case Bounded(inner, bounds):
            return _bounded(inner, bounds)


def _arm(tag: str, node: Type) -> Strategy:
    if is_unit(node):
        return st.just({"$tag": tag})
    return _plain(node).map(lambda value: {"$tag": tag, "$value": value})


def _bounded(inner: Type, bounds: Bounds) -> Strategy:
    if bounds.one_of is not None:
        return st.sampled_from(sorted(bounds.one_of))
    if bounds.pattern is not None:
        return st.from_regex(str(bounds.written["pattern"]), fullmatch=True)
    low, high = bounds.least, bounds.most
    if bounds.kind == "dec128":
        return st.decimals(low, high, places=2, allow_nan=False, allow_infinity=False).map(str)
    if low is not None or high is not None:
        least = 0 if low is None and bounds.kind == "nat" else low
        return st.integers(
            -_I64 if least is None else int(least), _I64 - 1 if high is None else int(high)
        )
    few, most = bounds.min_len or 0, bounds.max_len
    many = few + 8 if most is None else min(most, few + 8)
    return _sized(inner, few, many)


def _sized(inner: Type, few: int, many: int) -> Strategy:
    match inner:
        case Scalar("text"):
            return st.text(_LETTERS, min_size=few, max_size=many)
        case Scalar("bytes"):
            return st.binary(min_size=few, max_size=many)
        case ListOf(item):
            return st.lists(_plain(item), min_size=few, max_size=many)
        case SetOf(item):
            return st.lists(_plain(item), min_size=few, max_size=many, unique_by=repr)
        case MapOf(key, value):
            return st.dictionaries(_SCALARS[key], _plain(value), min_size=few, max_size=many)
        case _:
            return st.just(smallest(inner))
