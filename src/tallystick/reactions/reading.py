"""Reading a reaction file: a value, its places in the text, and all that is wrong with it.

Nothing raises here: what cannot be read is reported and replaced by its default, so that one run
reports everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.reactions import globs
from tallystick.values.expr import ExpressionFault, compile_expression, compile_template
from tallystick.values.findings import Finding, spelled
from tallystick.values.yaml12 import Path, Source

BAD: Final = "reaction.bad_value"
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)\Z")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Where the runtime keeps its own things: never watched, never written (G3).
STATE_PATHS: Final = (".tally", ".reactions")


class Reading:
    """One pass over one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings: list[Finding] = []

    def report(self, code: str, path: Path, message: str, hint: str = "") -> None:
        """Note one error at a path."""
        place = self.source.place(path)
        hint = hint or "see the fields of a reaction"
        self.findings.append(Finding(code, "error", *place, spelled(path), message, hint))

    def mapping(self, value: Any, path: Path, known: Iterable[str] | None) -> Mapping[str, Any]:
        """The map at a path, with no key but the known ones; empty for anything else."""
        if not isinstance(value, dict):
            if value is not None:
                self.report(BAD, path, f"{spelled(path)} is not a map")
            return {}
        if known is None:
            return value
        names = frozenset(known)
        for key in value:
            if key not in names:
                hint = f"known: {', '.join(sorted(names))}"
                self.report("reaction.unknown_key", (*path, key), f"no key {key} here", hint)
        return value

    def items(self, value: Any, path: Path) -> list[Any]:
        """The list at a path; empty for anything else."""
        if isinstance(value, list):
            return value
        if value is not None:
            self.report(BAD, path, f"{spelled(path)} is not a list")
        return []

    def texts(self, value: Any, path: Path) -> list[str]:
        """A list of texts."""
        found: list[str] = []
        for i, item in enumerate(self.items(value, path)):
            if isinstance(item, str) and item:
                found.append(item)
            else:
                self.report(BAD, (*path, i), f"{item!r} is not a text")
        return found

    def globs(self, value: Any, path: Path, *, relative: bool = True) -> list[str]:
        """A list of globs that are read here and lie outside of the runtime's own places."""
        return [
            glob
            for i, glob in enumerate(self.texts(value, path))
            if self.glob(glob, (*path, i), relative=relative)
        ]

    def glob(self, glob: str, path: Path, *, relative: bool = True) -> bool:
        """True for a good glob; else it is reported."""
        try:
            globs.parse(glob)
        except BadDefinition as why:
            self.report(why.code, path, why.message, why.hint)
            return False
        if glob.startswith("./") and not relative:
            hint = "write it relative to the workspace"
            self.report("reaction.bad_glob", path, f"{glob} is relative to a target", hint)
            return False
        if is_state_path(glob):
            hint = "the runtime's own places can be neither watched nor written"
            self.report(
                "reaction.state_path", path, f"{glob} names {glob.split('/', maxsplit=1)[0]}", hint
            )
            return False
        return True

    def choice(self, value: Any, words: tuple[str, ...], path: Path) -> str:
        """One of some words; the first of them for anything else."""
        if value in words:
            return str(value)
        self.report(BAD, path, f"{value!r} is not one of {', '.join(words)}")
        return words[0]

    def flag(self, value: Any, path: Path) -> bool:
        """A bool."""
        if type(value) is not bool:
            self.report(BAD, path, f"{value!r} is not true or false")
        return value is True

    def count(self, value: Any, path: Path, least: int = 0, most: int = 10**9) -> int:
        """A whole number within bounds."""
        if type(value) is int and least <= value <= most:
            return value
        self.report(BAD, path, f"{value!r} is not a whole number from {least} to {most}")
        return least

    def duration_ms(self, value: Any, path: Path) -> int:
        """Milliseconds of a text with a unit."""
        found = _DURATION.match(value) if isinstance(value, str) else None
        if found is not None:
            return int(found[1]) * _UNITS_MS[found[2]]
        self.report(BAD, path, f"{value!r} is not a duration", 'write "500ms", "30s", "10m", "1h"')
        return 0

    def expression(self, value: Any, path: Path, names: frozenset[str]) -> str:
        """A guard over known names; what it cannot compile or find by name is an error."""
        if not isinstance(value, str):
            self.report("reaction.expression", path, f"{value!r} is no expression", "{{ ... }}")
            return "{{ false }}"
        try:
            made = compile_expression(value, strict=True)
        except ExpressionFault as why:
            self.report("reaction.expression", path, why.message, why.hint)
            return "{{ false }}"
        self._known(made.names, names, path)
        return value

    def template(self, value: Any, path: Path, names: frozenset[str]) -> Any:
        """A value with templates inside, each judged at its own place."""
        if isinstance(value, dict):
            return {key: self.template(item, (*path, key), names) for key, item in value.items()}
        if isinstance(value, list):
            return [self.template(item, (*path, i), names) for i, item in enumerate(value)]
        if isinstance(value, str):
            try:
                self._known(compile_template(value, strict=True).names, names, path)
            except ExpressionFault as why:
                self.report("reaction.expression", path, why.message, why.hint)
                return None
        return value

    def _known(self, read: frozenset[str], names: frozenset[str], path: Path) -> None:
        for name in sorted(read - names):
            hint = f"known: {', '.join(sorted(names))}"
            self.report("reaction.expression", path, f"no name {name} here", hint)


def is_state_path(path: str) -> bool:
    """True for a path or glob that names a place of the runtime itself."""
    return any(part in STATE_PATHS for part in path.removeprefix("./").split("/"))
