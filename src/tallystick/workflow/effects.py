"""`Effect`: a request to the outside as a class; its fields are the parameters.

`class Charge(Effect[Charged], executor="payments")`: the argument is the type of the receipt, the
executor a name that a node binds.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, dataclass_transform

from tallystick.workflow import outcomes
from tallystick.workflow.codec import AS_IS, Codec, codec_of, span_ns
from tallystick.workflow.records import Record, RecordType

R = TypeVar("R")


class EffectSpec(NamedTuple):
    """What the class keywords say about an effect."""

    executor: str | None
    cap_type: str
    timeout_ns: int | None
    idempotent: bool
    pure: bool
    receipt: Any
    progress: Any


@dataclass_transform(frozen_default=True, kw_only_default=True)
class EffectType(RecordType):
    """Gives every effect class its specification and its own outcomes."""

    tally_effect: EffectSpec
    tally_receipt: Codec

    # tidy: the keywords of an effect class, read once.
    def __new__(  # noqa: D102 - the class docstring says it
        mcs,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        name: str | None = None,
        version: int = 1,
        executor: str | None = None,
        cap: str = "effect",
        timeout: str | int | None = None,
        idempotent: bool = False,
        pure: bool = False,
        progress: Any = None,
    ) -> Any:
        made = super().__new__(mcs, class_name, bases, namespace, name=name, version=version)
        if "__dataclass_fields__" in namespace:
            return made
        receipt = _receipt_of(made)
        span = span_ns(timeout)
        made.tally_effect = EffectSpec(executor, cap, span, idempotent, pure, receipt, progress)
        made.tally_receipt = AS_IS if receipt is None else codec_of(receipt)
        for outcome, cls in outcomes.outcomes_of(made).items():
            setattr(made, outcome, cls)
        return made


def _receipt_of(cls: Any) -> Any:
    """The argument of `Effect[...]` among the bases, if it is a type and not a variable."""
    for base in getattr(cls, "__orig_bases__", ()):
        if isinstance(typing.get_origin(base), EffectType):
            (found,) = typing.get_args(base)
            return None if isinstance(found, TypeVar) else found
    return None


class Effect(Record, Generic[R], metaclass=EffectType):
    """Base of all effects; subclasses carry their outcomes: `Charge.Ok`, `Charge.Error` ..."""

    if TYPE_CHECKING:
        # At run time every effect class has its own; type checkers see them through the base.
        class Settled(outcomes.Settled):
            """The end of this effect."""

        class Ok(outcomes.Ok, Settled):
            """It was done."""

        class Failed(outcomes.Failed, Settled):
            """It was not done."""

        class Error(outcomes.Error, Failed):
            """The executor says so."""

        class Timeout(outcomes.Timeout, Failed):
            """The deadline passed."""

        class Denied(outcomes.Denied, Failed):
            """Admission said no."""

        class Rejected(outcomes.Rejected, Failed):
            """The receipt cannot be read."""

        class Cancelled(outcomes.Cancelled, Failed):
            """It was cancelled."""

        class Progress(outcomes.Progress):
            """News about it."""
