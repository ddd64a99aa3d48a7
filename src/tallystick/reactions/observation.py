"""What one look at a workspace brings, in plain values: the input of `triggers.derive`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tallystick.reactions.document import Definition
from tallystick.reactions.heads import Head, Heads
from tallystick.reactions.listed import Listed
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import Tree, fold


class Request(NamedTuple):
    """Somebody asks for a reaction by name; `key` makes asking twice one request.

    A command of a run carries the run's depth, lineage and root.
    """

    reaction: str
    path: bytes
    name: str = "run"
    args: Mapping[str, Any] = {}
    key: str = ""
    actor: Mapping[str, str] = {"kind": "human", "id": ""}
    cause: Mapping[str, Any] | None = None


class Earlier:
    """What earlier looks found out, so that the next one needs only look at what has moved.

    It is asked by all that an answer depends on, so it never changes one.
    """

    MAX: Final = 64

    class Known(NamedTuple):
        """The files of a question, for a tree and for what a reaction had written."""

        tree: Tree
        own: frozenset[bytes]
        files: Listed

    def __init__(self) -> None:
        self._known: dict[Hashable, Earlier.Known] = {}
        self._stored: dict[str, frozenset[str]] = {}
        self._offered: dict[str, frozenset[str]] = {}

    def of(self, key: Hashable) -> Earlier.Known | None:
        """The last answer to a question."""
        return self._known.get(key)

    def keep(self, key: Hashable, known: Earlier.Known) -> None:
        """Keep an answer; the oldest question over the limit goes."""
        self._known.pop(key, None)
        self._known[key] = known
        if len(self._known) > self.MAX:
            del self._known[next(iter(self._known))]

    # The cell of a workspace holds the manifest of the last trigger of each reaction, and with it
    # these pages: they need not be sent again.

    def lacking(self, reaction: str, pages: Mapping[str, bytes]) -> dict[str, bytes]:
        """The pages of a trigger that the journal may not have."""
        stored = self._stored.get(reaction, frozenset())
        self._offered[reaction] = frozenset(pages)
        return {name: data for name, data in pages.items() if name not in stored}

    def accepted(self) -> None:
        """The journal has taken the triggers that were derived last."""
        self._stored.update(self._offered)
        self._offered.clear()


@dataclass(frozen=True, slots=True)
class Observation:
    """Two trees of a workspace and what else has happened between them.

    `before` is None when nothing was ever seen of it.
    `moved` are the heads that moved, `due` the names of reactions whose `every` is due.
    """

    world_id: str
    workspace_id: str
    n: int
    observed_at: int
    before: Tree | None
    after: Tree
    definitions: Sequence[Definition]
    stamps: Stamps
    heads: Heads = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    git_commit: str | None = None
    moved: Sequence[Head] = ()
    commands: Sequence[Request] = ()
    due: Sequence[str] = ()
    folding: bool = False
    earlier: Earlier = field(default_factory=Earlier, compare=False)

    def __post_init__(self) -> None:
        """Where names fold, the stamps of a name are those of all its spellings."""
        if self.folding:
            self.stamps.fold_names(self.workspace_id)

    def spelled(self, path: bytes) -> bytes:
        """A path as the disk spells it; as it is when no other spelling is there."""
        if not self.folding or path in self.after:
            return path
        wanted = fold(path)
        return next((at for at in self.after if fold(at) == wanted), path)


class Derived(NamedTuple):
    """Envelopes, outcomes and the blobs that they name: what `sys/Observed@1` carries."""

    triggers: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    blobs: list[bytes]
