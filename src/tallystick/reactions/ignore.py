r"""Which paths of a workspace nobody looks at: layers of rules with the meaning of gitignore.

Theory of operation (08 section 4).
The layers are, weakest first: soft (editors, version control, caches), `.gitignore`,
`.tallyignore`, configuration; all anchored to the workspace.
Within and across them the last rule that fits decides, and `!` takes a path back in.
The hard layer comes before all and cannot be taken back: our own folder and our stage files.
What stands inside an ignored directory is ignored with it, whatever later rules say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from tallystick.reactions.ids import H
from tallystick.reactions.tree import ancestors

HARD: Final = "hard"
SOFT: Final = "soft"
GITIGNORE: Final = ".gitignore"
TALLYIGNORE: Final = ".tallyignore"
SETTINGS: Final = "settings"
LAYERS: Final = (SOFT, GITIGNORE, TALLYIGNORE, SETTINGS)
FILES: Final = (GITIGNORE.encode(), TALLYIGNORE.encode())
SOFT_RULES: Final = (
    b".git/\n*.swp\n*~\n4913\n.#*\n*.tmp\n___jb_tmp___\nnode_modules/\n__pycache__/\n"
)
_STAGE: Final = re.compile(rb"\.[^/]*\.[0-9a-f]{8}\.stage", re.DOTALL)
_OURS: Final = b".tally"


class Rule(NamedTuple):
    """One line: the layer it stands in, its text, and what it means."""

    layer: str
    text: str
    takes_back: bool
    directories_only: bool
    expression: re.Pattern[bytes]

    @property
    def shown(self) -> str:
        """The rule as outcomes name it: `soft:*.swp`."""
        return f"{self.layer}:{self.text}"


@dataclass(frozen=True)
class Ignore:
    """All layers of one workspace, weakest first; made by `load`."""

    rules: tuple[Rule, ...]

    @cached_property
    def rules_id(self) -> bytes:
        """The identity of the rules: another one means that all has to be looked at anew."""
        return H("ignore@1", rules=[rule.shown for rule in self.rules])

    def entry(self, path: bytes, *, directory: bool) -> str | None:
        """The rule by which an entry is ignored, if what it stands in is not."""
        name = path.rpartition(b"/")[2]
        if name == _OURS:
            return f"{HARD}:.tally/"
        if not directory and name.endswith(b".stage") and _STAGE.fullmatch(name):
            return f"{HARD}:*.stage"
        for rule in self._latest:
            if (directory or not rule.directories_only) and rule.expression.fullmatch(path):
                return None if rule.takes_back else rule.shown
        return None

    def path(self, path: bytes, *, directory: bool = False) -> str | None:
        """The rule by which a path is ignored, by itself or by a directory above it."""
        for above in reversed(list(ancestors(path))):
            if above and (found := self.entry(above, directory=True)) is not None:
                return found
        return self.entry(path, directory=directory)

    @cached_property
    def _latest(self) -> tuple[Rule, ...]:
        return tuple(reversed(self.rules))


def load(gitignore: bytes = b"", tallyignore: bytes = b"", settings: Iterable[str] = ()) -> Ignore:
    """The layers of a workspace from the texts of its files; a line that is no rule is skipped."""
    texts = {
        SOFT: SOFT_RULES,
        GITIGNORE: gitignore,
        TALLYIGNORE: tallyignore,
        SETTINGS: "\n".join(settings).encode(),
    }
    return Ignore(tuple(rule for layer in LAYERS for rule in _rules(layer, texts[layer])))


def _rules(layer: str, text: bytes) -> Iterator[Rule]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        rule = _rule(layer, _trimmed(line.removesuffix(b"\r")))
        if rule is not None:
            yield rule


def _trimmed(line: bytes) -> bytes:
    r"""Without blanks at the end, but for those after a backslash."""
    kept = line.rstrip(b" ")
    if kept.endswith(b"\\") and len(kept) < len(line):
        kept += b" "
    return kept


def _rule(layer: str, line: bytes) -> Rule | None:
    if not line or line.startswith(b"#"):
        return None
    shown = line.decode("utf-8", "backslashreplace")
    takes_back = line.startswith(b"!")
    body = line[1:] if takes_back else line
    directories_only = body.endswith(b"/")
    body = body.rstrip(b"/") if directories_only else body
    if not body:
        return None
    anchored = b"/" in body
    try:
        made = _expression(body.lstrip(b"/") if anchored else b"**/" + body)
    except ValueError:
        return None
    return Rule(layer, shown, takes_back, directories_only, re.compile(made, re.DOTALL))


def _expression(pattern: bytes) -> bytes:
    """One pattern as an expression over whole paths; ValueError when a class has no end."""
    made = bytearray()
    at = 0
    while at < len(pattern):
        if pattern.startswith(b"**/", at) and (at == 0 or pattern[at - 1 : at] == b"/"):
            made += b"(?:[^/]+/)*"
            at += 3
        elif pattern[at:] == b"**" and pattern[at - 1 : at] in (b"", b"/"):
            made += b".+"
            at += 2
        else:
            piece, at = _piece(pattern, at)
            made += piece
    return bytes(made)


def _piece(pattern: bytes, at: int) -> tuple[bytes, int]:
    char = pattern[at : at + 1]
    if char == b"*":
        while pattern[at : at + 1] == b"*":
            at += 1
        return b"[^/]*", at
    if char == b"?":
        return b"[^/]", at + 1
    if char == b"[":
        return _class(pattern, at)
    if char == b"\\":
        if at + 1 == len(pattern):
            raise ValueError
        return re.escape(pattern[at + 1 : at + 2]), at + 2
    return re.escape(char), at + 1


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """A class of characters; one that has no end makes no rule, as with git."""
    inside = at + 1
    negated = pattern[inside : inside + 1] in (b"!", b"^")
    inside += negated
    end = pattern.find(b"]", inside + 1)  # a bracket in the first place is a member
    if end < 0:
        raise ValueError
    members = bytearray()
    body = pattern[inside:end].replace(b"\\", b"")
    spot = 0
    while spot < len(body):
        low = body[spot]
        ranged = spot + 2 < len(body) and body[spot + 1 : spot + 2] == b"-"
        high = body[spot + 2] if ranged else low
        if low > high:
            raise ValueError
        members += re.escape(bytes((low,))) + b"-" + re.escape(bytes((high,)))
        spot += 3 if ranged else 1
    # A slash is in no class, also not in a negated one.
    return b"(?!/)[" + (b"^" if negated else b"") + bytes(members) + b"]", end + 1
