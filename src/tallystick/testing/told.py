"""Counter-examples as pytest functions: a path of moves in the words of a `TestWorld`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from tallystick.testing.laws import LAWS
from tallystick.testing.moves import FINAL, RETRYABLE, Fire, Move, Say, Send, Stop
from tallystick.testing.search import Example, Report
from tallystick.testing.subject import Subject
from tallystick.values import canon
from tallystick.workflow.records import RecordType

_ANSWERS: Final = {
    RETRYABLE: f"error({RETRYABLE!r}, retryable=True)",
    FINAL: f"error({FINAL!r})",
    "timeout": "timeout(at_once=True)",
    "denied": "denied()",
}


class Names:
    """The names that a test needs, by the module they come from."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.used: dict[tuple[str, str], None] = {}

    def own(self, cls: Any) -> str:
        """A class of the app, or of the kit; its name."""
        ours = cls.__module__.startswith("tallystick.")
        self.used["tallystick" if ours else self.module, cls.__name__] = None
        return str(cls.__name__)

    def named(self, module: str, name: str) -> str:
        """A name of any module."""
        self.used[module, name] = None
        return name

    def imports(self) -> list[str]:
        """One import for each module."""
        held: dict[str, list[str]] = {}
        for module, name in self.used:
            held.setdefault(module, []).append(name)
        return [
            f"from {module} import {', '.join(sorted(held[module], key=str.lower))}"
            for module in sorted(held)
        ]


def written(reports: Iterable[Report], module: str) -> str:
    """A test file with one function for each counter-example; empty when there is none."""
    names = Names(module)
    tests: list[str] = []
    for report in reports:
        for number, example in enumerate(report.examples):
            tests.append("\n".join(_test(report.subject, example, number, names)))
    if not tests:
        return ""
    names.named(module, "app")
    head = '"""Counter-examples of `tally check`: each fails until its workflow is mended."""'
    return "\n".join([head, "", *names.imports(), "", "", "\n\n\n".join(tests), ""])


def _test(subject: Subject, example: Example, number: int, names: Names) -> list[str]:
    code = subject.spec.code.__name__
    names.named(names.module, code)
    names.named("tallystick.testing", "TestWorld")
    names.named("tallystick.testing", "assert_law")
    slug = re.sub(r"\W+", "_", example.law)
    law = LAWS.get(example.law, example.law)
    detail = example.detail.replace('"', "'").replace("\\", "/").partition("\n")[0]
    key = key_of(subject)
    return [
        f"def test_{code}_{slug}_{number}():",
        f'    """{law}; but {detail}."""',
        "    world = TestWorld(app, strict=False)",
        *(f"    {line}" for line in told(subject, example.moves, names)),
        f"    assert_law(world, {code}, {key!r}, {example.law!r})",
    ]


def told(subject: Subject, moves: Sequence[Move], names: Names) -> list[str]:
    """Each move as a line of a test."""
    return [_line(subject, move, names) for move in moves]


def key_of(subject: Subject) -> Any:
    """The key of the cell as a plain value; None where the workflow has none."""
    raw = subject.ident.key
    return canon.decode(raw) if raw else None


def _line(subject: Subject, move: Move, names: Names) -> str:
    match move:
        case Send(sample, copy):
            value = spelled(subject.samples.events[sample].value, names)
            return f"world.send({value}, idem='{sample}/{copy}')"
        case Stop():
            code = names.named(names.module, subject.spec.code.__name__)
            return f"world.cancel({code}, {key_of(subject)!r})"
        case Fire(corr, nth):
            return f"world.fire({corr!r}{_nth(nth)})"
        case Say(effect, corr, nth, _, status, value):
            cls = names.own(subject.effects[effect])
            said = _said(subject, (effect, status, value), names)
            return f"world.settle({cls}, {said}, corr={corr!r}{_nth(nth)})"


def _nth(nth: int) -> str:
    return f", nth={nth}" if nth else ""


def _said(subject: Subject, answer: tuple[str, str, int], names: Names) -> str:
    effect, status, number = answer
    if status != "ok":
        text = _ANSWERS[status]
        names.named("tallystick.testing", text.partition("(")[0])
        return text
    names.named("tallystick.testing", "ok")
    return f"ok({spelled(subject.samples.answers[effect][number].value, names)})"


def spelled(value: Any, names: Names) -> str:
    """A value as the source text that makes it."""
    if isinstance(type(value), RecordType):
        cls: Any = type(value)
        parts = [f"{name}={spelled(get(value), names)}" for name, get, _ in cls.tally_slots]
        return f"{names.own(cls)}({', '.join(parts)})"
    if isinstance(value, Enum):
        return f"{names.own(type(value))}.{value.name}"
    if isinstance(value, Decimal):
        names.named("decimal", "Decimal")
    if isinstance(value, UUID):
        names.named("uuid", "UUID")
    if isinstance(value, list):
        return f"[{', '.join(spelled(part, names) for part in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(spelled(part, names) + ',' for part in value)})"
    if isinstance(value, dict):
        rows = (f"{spelled(k, names)}: {spelled(v, names)}" for k, v in value.items())
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, set | frozenset):
        rows = (spelled(part, names) for part in sorted(value, key=repr))
        return f"frozenset([{', '.join(rows)}])"
    return repr(value)
