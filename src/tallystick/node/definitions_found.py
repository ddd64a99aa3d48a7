"""The reaction files of a workspace, read when they have moved (08 section 2)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tallystick.node.watch_disk import Disk
from tallystick.playbooks.document import load as load_playbook
from tallystick.playbooks.finding import BadPlaybook
from tallystick.reactions.check import check
from tallystick.reactions.document import Definition, load
from tallystick.reactions.finding import BadReaction
from tallystick.reactions.tree import DIRECTORY, Tree, shown, unshown
from tallystick.values.findings import Finding
from tallystick.values.yaml12 import NotYamlError, read

FOLDER: Final = b".reactions"
PLAYBOOKS: Final = "playbooks/"
PROFILES: Final = b".reactions/profiles.yaml"


@dataclass(frozen=True, slots=True)
class Loading:
    """What was loaded from which state of the folder, and what was wrong with the rest."""

    definitions: tuple[Definition, ...]
    findings: tuple[tuple[str, Finding], ...]
    folder_id: bytes | None
    at_ns: int = 0
    by_file: Mapping[str, Definition] = field(default_factory=dict)

    @property
    def hashes(self) -> tuple[str, ...]:
        """The definitions by hash, in a fixed order."""
        return tuple(sorted(each.hash for each in self.definitions))


class Loads:
    """Reads `.reactions/`; a broken file keeps the others from nothing."""

    def __init__(self, disk: Disk, adapters: Mapping[str, Mapping[str, Any]]) -> None:
        self._disk = disk
        self._adapters = adapters
        self._seen: bytes | None = b"never"
        self._last = Loading((), (), b"never")
        self.keeps = False
        """Whether a file that a mistake has come into goes on as it was (`tally dev`)."""

    def load(self, tree: Tree) -> Loading | None:
        """What the folder holds now; None when it is as it was."""
        node = tree.get(FOLDER)
        folder_id = None if node is None else node.id
        if folder_id == self._seen:
            return None
        self._seen = folder_id
        found = found_in(self._disk, sorted(tree), self._adapters, folder_id, tree)
        self._last = self._with_kept(found, tree) if self.keeps else found
        return self._last

    def _with_kept(self, found: Loading, tree: Tree) -> Loading:
        """With the last good definition of each file that is there and cannot be loaded."""
        names = {each.name for each in found.definitions}
        kept = {
            file: each
            for file, each in self._last.by_file.items()
            if file not in found.by_file and unshown(file) in tree and each.name not in names
        }
        by_file = {**found.by_file, **kept}
        definitions = tuple(by_file[file] for file in sorted(by_file))
        return replace(found, definitions=definitions, by_file=by_file)


def found_in(
    disk: Disk,
    paths: list[bytes],
    adapters: Mapping[str, Mapping[str, Any]],
    folder_id: bytes | None,
    tree: Tree,
) -> Loading:
    """Every definition of a folder that can be loaded, and every finding."""
    inside = [p for p in paths if p.startswith(FOLDER + b"/") and tree[p].kind != DIRECTORY]
    beside, played = _beside(disk, inside)
    profiles, findings = _profiles(disk)
    findings += played
    loaded: dict[str, Definition] = {}
    for path in inside:
        name = shown(path)
        if path == PROFILES or path.count(b"/") != 1 or not path.endswith((b".yaml", b".yml")):
            continue
        try:
            text = (disk.text(path) or b"").decode()
            loaded[name] = load(text, name, beside, profiles, adapters)
        except BadReaction as why:
            findings += [(name, finding) for finding in why.findings]
        except UnicodeDecodeError:
            findings.append((name, _not_text()))
    findings += [(finding.path, finding) for finding in check(list(loaded.values()))]
    # What checks refuse is not loaded: a reaction that feeds itself would run before anybody reads.
    refused = {finding.path for _, finding in findings if finding.severity == "error"}
    kept = {file: each for file, each in loaded.items() if each.name not in refused}
    return Loading(tuple(kept.values()), tuple(findings), folder_id, time.time_ns(), kept)


def _beside(disk: Disk, inside: list[bytes]) -> tuple[dict[str, bytes], list[tuple[str, Finding]]]:
    """Prompts and playbooks: files of folders beside the reactions, by name with and without it.

    A playbook is given in its normal form, so what its comments say is under no hash.
    """
    found: dict[str, bytes] = {}
    findings: list[tuple[str, Finding]] = []
    for path in inside:
        name = shown(path[len(FOLDER) + 1 :])
        data = disk.text(path) if "/" in name else None
        if data is not None and name.startswith(PLAYBOOKS):
            data, refused = _playbook(data, name)
            findings += [(shown(path), each) for each in refused]
        if data is not None:
            found[name] = data
            found.setdefault(name.partition("/")[2], data)
    return found, findings


def _playbook(data: bytes, name: str) -> tuple[bytes | None, list[Finding]]:
    try:
        return load_playbook(data.decode(), name).bytes, []
    except BadPlaybook as why:
        return None, [Finding(*each) for each in why.findings if each.severity == "error"]
    except UnicodeDecodeError:
        return None, [_not_text()]


def _profiles(disk: Disk) -> tuple[Mapping[str, Any], list[tuple[str, Finding]]]:
    data = disk.text(PROFILES)
    if data is None:
        return {}, []
    try:
        value = read(data.decode()).value
    except (NotYamlError, UnicodeDecodeError):
        return {}, [(shown(PROFILES), _not_text())]
    return value if isinstance(value, dict) else {}, []


def _not_text() -> Finding:
    return Finding("reaction.yaml", "error", 1, 1, "", "the file is no YAML text", "see 1.2")
