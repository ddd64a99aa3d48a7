"""What is seen before anything runs: reactions that feed themselves or each other (G3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tallystick.reactions import globs
from tallystick.reactions.document import Definition
from tallystick.reactions.scopes import anchored
from tallystick.reactions.tree import shown
from tallystick.values.findings import Finding


class Edge(NamedTuple):
    """A write of one reaction that can start another, and what shows it."""

    writer: str
    reader: str
    witness: str


def check(definitions: Sequence[Definition]) -> list[Finding]:
    """Every finding over a workspace's reactions: names, overlaps, cycles of activation."""
    found = list(_twice(definitions))
    for definition in definitions:
        found += overlap(definition)
    return found + list(_cycles(definitions))


def _finding(code: str, severity: str, path: str, message: str, hint: str) -> Finding:
    return Finding(code, severity, 1, 1, path, message, hint)


def _twice(definitions: Sequence[Definition]) -> Iterator[Finding]:
    seen: dict[str, None] = {}
    for definition in definitions:
        if definition.name in seen:
            message = f"two reactions are called {definition.name}"
            hint = "a name is unique in the workspace"
            yield _finding("reaction.name", "error", definition.name, message, hint)
        seen[definition.name] = None


# ---- own overlap ----------------------------------------------------------------------------


def overlap(definition: Definition) -> list[Finding]:
    """A finding when own writes meet own triggers and nothing says how that is meant."""
    if definition["overlap"] != "forbid":
        return []
    for entry in definition["on"]:
        for glob in entry.get("files", ()):
            witness = _meet(definition, definition["writes"]["files"], definition, glob)
            if witness is not None:
                message = f"{definition.name} writes {witness} and reacts to it"
                hint = "narrow one of the two, or say overlap: managed or in_place"
                return [_finding("reaction.scope_overlap", "error", definition.name, message, hint)]
    return []


def _meet(writer: Definition, writes: Iterable[str], reader: Definition, glob: str) -> str | None:
    """A path that both a write and a trigger mean, or None."""
    for write in writes:
        witness = globs.intersect(anchored(writer, write), anchored(reader, glob))
        if witness is not None:
            return shown(witness)
    return None


# ---- activation -----------------------------------------------------------------------------


def edges(definitions: Sequence[Definition]) -> list[Edge]:
    """Which reaction can start which: by generated files, by frames, by name."""
    found: list[Edge] = []
    for writer in definitions:
        for reader in definitions:
            if writer.name != reader.name:
                witness = _activates(writer, reader)
                if witness is not None:
                    found.append(Edge(writer.name, reader.name, witness))
    return found


def _activates(writer: Definition, reader: Definition) -> str | None:
    for entry in reader["on"]:
        if "files" in entry and entry["generated"]:
            for glob in entry["files"]:
                witness = _meet(writer, writer["writes"]["files"], reader, glob)
                if witness is not None:
                    return witness
        if "frame" in entry and entry["frame"] in _frames(writer):
            return f"frame {entry['frame']}"
    for action in writer["actions"]:
        if action["kind"].startswith("frame.") and action["params"].get("reaction") == reader.name:
            return f"command {reader.name}"
    return None


def _frames(writer: Definition) -> list[str]:
    found = list(writer["writes"]["frames"])
    for action in writer["actions"]:
        kind = "type" if action["kind"] == "frame.put" else "emit_frame"
        if kind in action["params"]:
            found.append(action["params"][kind])
    return found


def _cycles(definitions: Sequence[Definition]) -> Iterator[Finding]:
    allowed = {each.name for each in definitions if each["cycles"] == "allow"}
    out: dict[str, list[Edge]] = {each.name: [] for each in definitions}
    for edge in edges(definitions):
        out[edge.writer].append(edge)
    told: list[frozenset[str]] = []
    for start in sorted(out):
        way = _way_back(start, out)
        members = frozenset(edge.writer for edge in way)
        if way and members not in told and not members <= allowed:
            told.append(members)
            names = " -> ".join([*(edge.writer for edge in way), start])
            witness = ", ".join(edge.witness for edge in way)
            hint = "break the circle, or say cycles: allow in each of them"
            message = f"{names} start each other by {witness}"
            yield _finding("reaction.activation_cycle", "warning", start, message, hint)


def _way_back(start: str, out: dict[str, list[Edge]]) -> list[Edge]:
    """The shortest circle through a reaction; empty when there is none."""
    ways: list[list[Edge]] = [[edge] for edge in out[start]]
    seen = {start}
    while ways:
        following: list[list[Edge]] = []
        for way in ways:
            at = way[-1].reader
            if at == start:
                return way
            if at not in seen:
                seen.add(at)
                following += [[*way, edge] for edge in out[at]]
        ways = following
    return []
