"""What rewritten code of the lane calls: the meter, the guards and the capped builtins.

A stop derives from BaseException, so that no `except Exception` of a workflow can swallow it.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Any, Final, NoReturn

from tallystick.modules.lane_check import CAPPED
from tallystick.modules.lane_rewrite import EACH, POP, TICK, builtin_name
from tallystick.modules.lane_rules import Rules
from tallystick.workflow.sets import ORDERED

_SETS: Final = (set, frozenset)


class LaneStop(BaseException):
    """A tick that may not go on; `code` is a fault code of the kernel."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Over:
    """The end of every budget: asking for one more step stops the tick, each time anew."""

    def __iter__(self) -> Iterator[bool]:
        return self

    def __next__(self) -> NoReturn:
        raise LaneStop("fuel", "the tick used up its fuel")


class Meter:
    """A budget that is used up one step at a time, counted in C."""

    __slots__ = ("_budget", "_left", "step")

    def __init__(self) -> None:
        self.start(0)

    def start(self, budget: int) -> None:
        """Begin a new budget."""
        self._budget = budget
        self._left = repeat(True, budget)
        # True for as long as there is fuel: it can stand in the condition of a comprehension.
        self.step: Callable[[], bool] = chain(self._left, _Over()).__next__

    @property
    def used(self) -> int:
        """Steps so far."""
        return self._budget - self._left.__length_hint__()

    def charge(self, steps: int) -> None:
        """Use up several steps at once."""
        if steps > self._left.__length_hint__():
            deque(self._left, maxlen=0)
            self.step()
        deque(islice(self._left, steps), maxlen=0)


def runtime_of(rules: Rules, meter: Meter) -> dict[str, Any]:
    """The names that rewritten code finds in its globals; `@t` is set anew for each tick."""
    guards = _Guards(rules, meter)
    found: dict[str, Any] = {TICK: meter.step, EACH: _each, POP: _pop}
    found |= {"@mul": guards.mul, "@pow": guards.pow, "@shift": guards.shift}
    found |= {builtin_name(word): getattr(guards, word + "_") for word in CAPPED}
    return found


def builtins_of(rules: Rules, importer: Callable[..., Any]) -> Mapping[str, Any]:
    """The builtins of the lane: those that need no guard, capped ones as plain types, our sets."""
    known = {word: getattr(builtins, word) for word in sorted(rules.builtins | CAPPED)}
    own = {base.__name__: kind for base, kind in ORDERED.items()}
    return {**known, **own, "__import__": importer}


def owner_of(kind: Any) -> Callable[[Any], Any]:
    """What makes a set of the lane of a plain one, and hands on everything else."""

    def own(made: Any) -> Any:
        return kind(made) if type(made) is set else made

    return own


def _each(given: Any) -> Any:
    """What is iterated over, unless its order is nobody's promise."""
    if isinstance(given, _SETS):
        raise LaneStop("set_order", "iterating over a set; iterate over sorted(...) instead")
    return given


def _pop(given: Any) -> Any:
    if isinstance(given, _SETS):
        raise LaneStop("set_order", "pop of a set gives any member; use min(...) and remove")
    return given.pop()


class _Guards:
    """Capped operators and builtins; those that take time are charged by size."""

    def __init__(self, rules: Rules, meter: Meter) -> None:
        self._rules = rules
        self._meter = meter

    # ---- operators --------------------------------------------------------------------------

    def mul(self, left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            if left.bit_length() + right.bit_length() > self._rules.product_bits_max:
                self._refuse("a product", self._rules.product_bits_max, "bits")
            return left * right
        for many, times in ((left, right), (right, left)):
            if isinstance(times, int) and isinstance(many, str | bytes | bytearray | list | tuple):
                if len(many) * times > self._rules.repeat_max:
                    self._refuse("a repetition", self._rules.repeat_max, "items")
                self._charge(len(many) * times)
        return left * right

    def pow(self, left: Any, right: Any) -> Any:
        whole = isinstance(left, int) and isinstance(right, int) and right > 0
        if whole and left.bit_length() * right > self._rules.bits_max:
            self._refuse("a power", self._rules.bits_max, "bits")
        return left**right

    def shift(self, left: Any, right: Any) -> Any:
        whole = isinstance(left, int) and isinstance(right, int)
        if whole and left.bit_length() + right > self._rules.bits_max:
            self._refuse("a shift", self._rules.bits_max, "bits")
        return left << right

    # ---- builtins ---------------------------------------------------------------------------

    def pow_(self, left: Any, right: Any, modulus: Any = None) -> Any:
        return self.pow(left, right) if modulus is None else pow(left, right, modulus)

    def range_(self, *bounds: Any) -> Any:
        made = range(*bounds)
        # The length of a range may not fit a machine word; its ends tell.
        if made and abs(made[-1] - made[0]) // abs(made.step) >= self._rules.items_max:
            self._refuse("a range", self._rules.items_max, "items")
        return made

    def list_(self, given: Any = ()) -> Any:
        return self._bounded(list(islice(_each(given), self._rules.items_max + 1)))

    def tuple_(self, given: Any = ()) -> Any:
        return self._bounded(tuple(islice(_each(given), self._rules.items_max + 1)))

    def sorted_(self, given: Any, /, **how: Any) -> Any:
        made = self._bounded(list(islice(given, self._rules.items_max + 1)))
        if how.get("key") is not None and isinstance(given, _SETS):
            # Members with equal keys would keep the order of the set.
            made.sort()
        return sorted(made, **how)

    def sum_(self, given: Any, start: Any = 0) -> Any:
        return sum(self.list_(given), start)

    def map_(self, function: Any, *given: Any) -> Any:
        return map(function, *[_each(each) for each in given])

    def zip_(self, *given: Any, **how: Any) -> Any:
        return zip(*[_each(each) for each in given], **how)  # noqa: B905 - as the caller says

    def enumerate_(self, given: Any, start: int = 0) -> Any:
        return enumerate(_each(given), start)

    def filter_(self, function: Any, given: Any) -> Any:
        return filter(function, _each(given))

    def iter_(self, *given: Any) -> Any:
        return iter(_each(given[0]), *given[1:])

    def next_(self, *given: Any) -> Any:
        return next(*given)

    def reversed_(self, given: Any) -> Any:
        return reversed(_each(given))

    def min_(self, *given: Any, **how: Any) -> Any:
        return self._extreme(min, given, how)

    def max_(self, *given: Any, **how: Any) -> Any:
        return self._extreme(max, given, how)

    def all_(self, given: Any) -> bool:
        return all(given)

    def any_(self, given: Any) -> bool:
        return any(given)

    def str_(self, *given: Any) -> Any:
        if given:
            _each(given[0])
        return self._bounded(str(*given))

    def bytes_(self, *given: Any) -> Any:
        if given and isinstance(given[0], int) and given[0] > self._rules.items_max:
            self._refuse("bytes", self._rules.items_max, "items")
        return self._bounded(bytes(*[_each(each) for each in given]))

    def getattr_(self, held: Any, name: str, *default: Any) -> Any:
        return getattr(held, _plain(name), *default)

    def hasattr_(self, held: Any, name: str) -> bool:
        return hasattr(held, _plain(name))

    # ---- limits -----------------------------------------------------------------------------

    def _extreme(self, function: Any, given: tuple[Any, ...], how: dict[str, Any]) -> Any:
        if len(given) == 1 and isinstance(given[0], _SETS):
            return function(self.sorted_(given[0]), **how)  # equal keys: the smallest comes first
        return function(*given, **how)

    def _bounded(self, made: Any) -> Any:
        if len(made) > self._rules.items_max:
            self._refuse("a sequence", self._rules.items_max, "items")
        self._charge(len(made))
        return made

    def _charge(self, size: int) -> None:
        if size >= 64:
            self._meter.charge(size // 64)

    def _refuse(self, what: str, most: int, unit: str) -> NoReturn:
        raise LaneStop("fuel", f"{what} of more than {most} {unit}")


def _plain(name: str) -> str:
    if name.startswith("__"):
        raise AttributeError(f"{name} is not in the lane")
    return name
