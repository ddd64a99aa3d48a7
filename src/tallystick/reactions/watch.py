"""The watcher of one workspace: from hints and scans to batches of what changed (08 section 6).

Theory of operation.
Hints mark paths and are never believed; `look` scans and compares with what the journal knows.
It is driven from outside: somebody tells it of hints, asks when it wants to look, and lets it.
What it found counts only once the journal has taken it (`accepted`); until then the next look
finds the same difference again, so nothing is lost with a process or a refused record.

A look ends in one of these ways: nothing to say; a batch; waiting for version control (W7), which
would otherwise show half a checkout; or missing, when so much has vanished that a lost mount is
likelier than an edit.
A change of the ignore rules is two batches: one that only the rules explain, which fires nothing,
and one with what people changed.
"""

# tidy: one machine, told and looking.
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tallystick.reactions import ignore, settle
from tallystick.reactions.ignore import Ignore
from tallystick.reactions.scan import FILE_BYTES_MAX, FileSystem, Scanned, Scanner
from tallystick.reactions.settle import Dirty, Patience, Settle
from tallystick.reactions.tree import (
    DIRECTORY,
    EMPTY,
    ROOT,
    Tree,
    TreeNode,
    listings,
    tree_id,
    with_changes,
)

VCS_BUSY, MISSING, NO_CHANGE = "vcs_busy", "missing", "no_change"
USUAL: Final = Patience()
BUSY_MAX_NS: Final = 60_000_000_000
QUIET_NS: Final = 60_000_000_000
VANISHED_MIN: Final = 20
_BUSY: Final = (
    b".git/index.lock",
    b".git/rebase-merge",
    b".git/rebase-apply",
    b".git/MERGE_HEAD",
)


class Clock(Protocol):
    """Time, twice: the one that files are stamped with, and one that never steps back."""

    def wall_ns(self) -> int:
        """As in the times of files."""
        ...

    def steady_ns(self) -> int:
        """For waiting."""
        ...


class HintSource(Protocol):
    """Whoever says where something may have happened; it may be wrong, late or silent."""

    def start(self, watcher: Watcher) -> None:
        """Begin to call `hint` and `lost`."""
        ...

    async def close(self) -> None:
        """Give no more hints."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How one workspace is watched."""

    patience: Patience = USUAL
    ignore: tuple[str, ...] = ()
    file_bytes_max: int = FILE_BYTES_MAX


class Difference(NamedTuple):
    """What changed between two states of a workspace, as one observation.

    `held` is VCS_BUSY, MISSING or NO_CHANGE where the batch only says that nothing moved, and why.
    `silent`: the rules explain it, so it fires nothing.
    """

    before: Tree
    after: Tree
    listings: Mapping[bytes, bytes]
    flags: tuple[str, ...] = ()
    held: str | None = None
    silent: bool = False

    @property
    def moved(self) -> bool:
        """True when the two states differ."""
        return tree_id(self.before) != tree_id(self.after)


class Watcher:
    """One workspace; not to be told anything while it looks."""

    def __init__(self, files: FileSystem, clock: Clock, settings: Settings) -> None:
        self._files = files
        self._clock = clock
        self._settings = settings
        self._settle = Settle(settings.patience)
        self._ignore = self._rules()
        self._scanner = Scanner(files, self._ignore, settings.file_bytes_max)
        self._before: Tree = EMPTY
        self._waiting: Difference | None = None
        self._again_ns: int | None = None
        self._flags: set[str] = set()
        self._old_rules: Ignore | None = None
        self._busy_ns: int | None = None
        self._busy_told = False
        self._told_ns: int | None = None
        self._first = False
        self._confirmed = False
        self.missing = False
        """Silent, because too much has vanished."""

    # ---- what it is told --------------------------------------------------------------------

    def start(self, journaled: Tree | None) -> None:
        """What the journal knows; None when this workspace was never scanned (W3)."""
        self._go_on_from(EMPTY if journaled is None else journaled)
        self._first = journaled is None
        self._flags.add(settle.STARTUP)
        # Rules that came while nobody looked hide files; nobody has removed those.
        self._old_rules = self._ignore

    def again(self, journaled: Tree) -> None:
        """An observation was refused as stale: go on from what the journal has."""
        self._go_on_from(journaled)
        self._settle.mark_all(settle.RESCAN, self._clock.steady_ns())

    def _go_on_from(self, journaled: Tree) -> None:
        self._before = journaled
        self._waiting = None

    def hint(self, path: bytes) -> None:
        """A path below the workspace may have changed."""
        if self._ignore.path(path) is None:
            self._settle.mark(path, self._clock.steady_ns())

    def lost(self, flag: str = settle.OVERFLOW) -> None:
        """Hints were lost; anything may have changed."""
        self._settle.mark_all(flag, self._clock.steady_ns())

    def hinted(self, *, by_somebody: bool) -> None:
        """Whether anybody gives hints; without them everything is looked at often."""
        self._settle.hinted = by_somebody

    def confirm(self) -> None:
        """What vanished was meant to: let it be an ordinary change."""
        self._confirmed = True
        self._again_ns = 0

    def now(self) -> None:
        """Look at everything at once."""
        self._settle.mark_all(settle.RESCAN, self._clock.steady_ns())
        self._again_ns = 0

    @property
    def dirty(self) -> int:
        """How many paths wait to be looked at."""
        return self._settle.count

    @property
    def known(self) -> Tree:
        """What the journal has taken last."""
        return self._before

    def due_ns(self) -> int:
        """When it wants to look next, on the steady clock."""
        if self._waiting is not None:
            return 0
        return self._settle.due_ns() if self._again_ns is None else self._again_ns

    def accepted(self, batch: Difference) -> None:
        """The journal has taken a batch."""
        self._before = batch.after
        if self._waiting is batch:
            self._waiting = None

    # ---- looking ----------------------------------------------------------------------------

    def look(self) -> Difference | None:
        """Scan what is dirty and say what differs; None when there is nothing to say."""
        if self._waiting is not None:
            return self._waiting
        now_ns = self._clock.steady_ns()
        if self._busy(now_ns):
            return self._wait(now_ns)
        self._again_ns = None
        dirty = self._settle.take(now_ns)
        self._flags.update(dirty.flags)
        self._take_rules(dirty)
        scanned = self._scan(dirty)
        if self._busy(self._clock.steady_ns()):  # it began while we looked: half of it was seen
            return self._wait(now_ns)
        if self._is_missing(scanned):
            told = self.missing
            self.missing = True
            return None if told else self._held(MISSING)
        self.missing = False
        after = EMPTY if scanned.gone else scanned.tree
        # Without a hint nobody waits for a word, and of torn files it is not out yet.
        asked = dirty.hinted and not scanned.torn
        return self._by_rules(after) or self._by_people(after, asked=asked)

    def _scan(self, dirty: Dirty) -> Scanned:
        everything = dirty.paths is None or self._old_rules is not None
        scanned = self._scanner.scan(self._clock.wall_ns(), None if everything else dirty.paths)
        for path in scanned.torn:
            self._settle.mark(path, self._clock.steady_ns())
        return scanned

    def _wait(self, now_ns: int) -> Difference | None:
        """Look again soon; the first time it is said why nothing comes."""
        self._again_ns = now_ns + self._settings.patience.settle_ns
        if self._busy_told:
            return None
        self._busy_told = True
        return self._held(VCS_BUSY)

    def _by_rules(self, after: Tree) -> Difference | None:
        """The half of a difference that other rules explain; the other half comes at once."""
        old, self._old_rules = self._old_rules, None
        if old is None:
            return None
        between = self._between(after, old)
        if tree_id(between) == tree_id(self._before):
            return None
        self._again_ns = 0
        return self._keep(between, (settle.RULES,), silent=True)

    def _by_people(self, after: Tree, *, asked: bool) -> Difference | None:
        """The difference to what the journal knows; if there is none, that, once a minute."""
        flags = tuple(sorted(self._flags - {settle.RULES}))
        self._flags.clear()
        self._confirmed = False
        if self._first or tree_id(after) != tree_id(self._before):
            return self._keep(after, flags)
        self._before = after  # the same, and it knows the sizes, which the journal does not
        now_ns = self._clock.steady_ns()
        if not asked or (self._told_ns is not None and now_ns - self._told_ns < QUIET_NS):
            return None
        self._told_ns = now_ns
        return self._held(NO_CHANGE)

    def _keep(self, after: Tree, flags: tuple[str, ...], *, silent: bool = False) -> Difference:
        made = listings(after, {} if self._first else self._before)
        self._first = False
        self._waiting = Difference(self._before, after, made, flags, silent=silent)
        return self._waiting

    def _held(self, why: str) -> Difference:
        return Difference(self._before, self._before, {}, (), held=why)

    # ---- what keeps it from speaking --------------------------------------------------------

    def _busy(self, now_ns: int) -> bool:
        """W7: true while version control is at work, for at most a minute."""
        if not any(self._files.exists(path) for path in _BUSY):
            self._busy_ns = None
            self._busy_told = False
            return False
        if self._busy_ns is None:
            self._busy_ns = now_ns
        return now_ns - self._busy_ns < BUSY_MAX_NS

    def _is_missing(self, scanned: Scanned) -> bool:
        """W7: the workspace is gone, or over half of its files are."""
        if self._confirmed:
            return False
        if scanned.gone:
            return len(self._before) > 1
        files = [path for path, node in self._before.items() if node.kind != DIRECTORY]
        if len(files) < VANISHED_MIN:
            return False
        vanished = sum(path not in scanned.tree for path in files)
        return vanished * 2 > len(files)

    # ---- rules ------------------------------------------------------------------------------

    def _rules(self) -> Ignore:
        texts = [self._files.text(path) or b"" for path in ignore.FILES]
        return ignore.load(texts[0], texts[1], self._settings.ignore)

    def _take_rules(self, dirty: Dirty) -> None:
        """Let changed rule files hold from now on."""
        if dirty.paths is not None and not dirty.paths.intersection((*ignore.FILES, ROOT)):
            return
        found = self._rules()
        if found.rules_id != self._ignore.rules_id:
            self._old_rules = self._old_rules or self._ignore
            self._ignore = found
            self._scanner.use(found)

    def _between(self, after: Tree, old: Ignore) -> Tree:
        """What was, as the new rules show it: less what they hide, with what the old ones hid."""
        changed: dict[bytes, TreeNode | None] = {}
        for path, node in self._before.items():
            hidden = path and path not in after
            if hidden and self._ignore.path(path, directory=node.kind == DIRECTORY) is not None:
                changed[path] = None
        for path, node in after.items():
            new = path and path not in self._before
            if new and old.path(path, directory=node.kind == DIRECTORY) is not None:
                changed[path] = node
        return with_changes(self._before, changed)
