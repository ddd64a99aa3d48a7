"""Reading a playbook: a value, its places in the text, and all that was found wrong in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tallystick.values.expr import ExpressionFault, compile_expression, compile_template
from tallystick.values.findings import Finding, spelled
from tallystick.values.names import nearest
from tallystick.values.yaml12 import Path, Source

NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}\Z")
LABEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
SCOPES: Final = frozenset(
    [
        "workload",
        "ctx",
        "args",
        "iter",
        "event",
        "outcome",
        "results",
        "job",
        "execution_id",
        "keychain",
        "join",
        "loop_index",
        "_prev",
        "_task",
        "_attempt",
    ]
)
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)\Z")
_UNITS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}


def meant(word: Any, known: Iterable[str], what: str = "known") -> str:
    """A hint for an unknown word: the one that was probably meant, and all that there are."""
    names = sorted(known)
    close = nearest(word, names) if isinstance(word, str) else ""
    return f"{close} {what}: {', '.join(names)}".strip()


class Reading:
    """One pass over a document: reads parts and notes what is wrong with them.

    Nothing raises here; what cannot be read is reported and replaced by nothing, so that one run
    reports everything.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings: list[Finding] = []
        # Step or None -> the names that its expressions read, with the path of each expression.
        self.reads: list[tuple[Path, frozenset[str]]] = []

    def report(
        self, code: str, path: Path, message: str, hint: str = "", severity: str = "error"
    ) -> None:
        """Note one finding at a path."""
        place = self.source.place(path)
        hint = hint or "see the grammar of playbooks"
        self.findings.append(Finding(code, severity, *place, spelled(path), message, hint))

    def mapping(self, value: Any, path: Path, code: str, what: str) -> Mapping[str, Any]:
        """The map at a path; empty, with a finding, when it is something else."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.report(code, path, f"{what} is not a map")
        return {}

    def only(
        self, given: Mapping[str, Any], known: Iterable[str], path: Path, code: str, what: str
    ) -> None:
        """Report each key that is not known; `x-` keys are free."""
        names = frozenset(known)
        for key in given:
            if key not in names and not key.startswith("x-"):
                self.report(code, (*path, key), f"{what} has no key {key}", meant(key, names))

    def choice(self, value: Any, words: Iterable[str], path: Path, code: str) -> str:
        """One of some words; the first of them, with a finding, for anything else."""
        known = tuple(words)
        if value in known:
            return str(value)
        hint = nearest(value, known) if isinstance(value, str) else ""
        self.report(code, path, f"{value!r} is not one of {', '.join(known)}", hint)
        return known[0]

    def flag(self, value: Any, path: Path, code: str) -> bool:
        """A bool."""
        if type(value) is not bool:
            self.report(code, path, f"{value!r} is not true or false")
        return value is True

    def duration_ns(self, value: Any, path: Path) -> int | None:
        """Nanoseconds of a duration: seconds as a number, or text with a unit (P126)."""
        if type(value) in (int, float) and 0 <= value <= 10**9:
            return int(value * 10**9)
        found = _DURATION.match(value) if isinstance(value, str) else None
        if found is not None and float(found[1]) * _UNITS[found[2]] < 2**62:
            return int(float(found[1]) * _UNITS[found[2]])
        hint = 'seconds as a number, or "500ms", "30s", "5m", "2h", "1d"'
        self.report("P126", path, f"{value!r} is not a duration", hint)
        return None

    def count(self, value: Any, path: Path, least: int = 1, code: str = "P126") -> int | None:
        """A whole number of at least something."""
        if type(value) is int and least <= value <= 10**9:
            return value
        self.report(code, path, f"{value!r} is not a whole number of at least {least}")
        return None

    def guard(self, value: Any, path: Path) -> str | bool:
        """A guard: a bool, or an expression that compiles; true, with a finding, otherwise."""
        if type(value) is bool:
            return value
        if not isinstance(value, str):
            self.report("P201", path, f"{value!r} is not an expression", 'write "{{ ... }}"')
            return True
        try:
            made = compile_expression(value)
        except ExpressionFault as why:
            self.report(why.code, path, why.message, why.hint)
            return True
        self.reads.append((path, made.names))
        return value

    def template(self, value: Any, path: Path) -> Any:
        """A value with expressions inside; each that does not compile is reported at its place."""
        if isinstance(value, str):
            try:
                made = compile_template(value)
            except ExpressionFault as why:
                self.report(why.code, path, why.message, why.hint)
                return None
            self.reads.append((path, made.names))
        elif isinstance(value, dict):
            return {key: self.template(item, (*path, key)) for key, item in value.items()}
        elif isinstance(value, list):
            return [self.template(item, (*path, i)) for i, item in enumerate(value)]
        return value

    def templates(self, value: Any, path: Path, code: str, what: str) -> dict[str, Any]:
        """A map of templates."""
        given = self.mapping(value, path, code, what)
        return {key: self.template(item, (*path, key)) for key, item in given.items()}
