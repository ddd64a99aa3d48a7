"""Where a reaction reads, writes and reacts: its globs, made absolute below a target (G3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tallystick.reactions import globs
from tallystick.reactions.document import Definition
from tallystick.reactions.reading import is_state_path
from tallystick.reactions.tree import fold, parent


def base_of(definition: Definition, target: bytes) -> bytes:
    """The directory that `./` means: the target, or the one that a target file stands in."""
    return parent(target) if definition["target"]["kind"] == "file" else target


def below(definition: Definition, wanted: Iterable[str], target: bytes) -> list[str]:
    """Globs of a definition as they read for one target."""
    base = base_of(definition, target)
    made = (globs.below(glob, base) for glob in wanted)
    return [glob for glob in made if glob is not None]


def means(wanted: Iterable[str], path: bytes) -> str | None:
    """The first glob that means a path."""
    return globs.match_any(tuple(wanted), path)


def literal(glob: str) -> bytes:
    """What every path that a glob means begins with; a cheap first question."""
    plain = glob.removeprefix("./")
    at = min((plain.index(char) for char in "*?{" if char in plain), default=len(plain))
    return plain[:at].rstrip("/").encode("utf-8", "surrogateescape")


def anchored(definition: Definition, glob: str) -> str:
    """A glob relative to the workspace: below any target that its definition can have."""
    if not glob.startswith("./"):
        return glob
    rest, target = glob[2:], definition["target"]
    if target["kind"] == "workspace":
        return rest
    if target["kind"] == "directory":
        return f"{target['match']}/{rest}"
    above, _, last = target["match"].rpartition("/")
    if last == "**":
        above = target["match"]
    return f"{above}/{rest}" if above else rest


def spelled(definition: Definition, target: bytes, path: str) -> str:
    """A path in the spelling of `writes`, where names fold; as it is when no glob means it."""
    for glob in below(definition, definition["writes"]["files"], target):
        for segments in globs.parse(glob).alternatives:
            made = _spelled_by(segments, path.split("/"))
            if means((glob,), raw_of(made)) is not None:
                return made
    return path


def _spelled_by(segments: Sequence[str], parts: list[str]) -> str:
    """The parts with the plain segments that a glob begins with in their place."""
    made = list(parts)
    for at, (segment, part) in enumerate(zip(segments, parts, strict=False)):
        if any(char in segment for char in "*?") or fold(raw_of(segment)) != fold(raw_of(part)):
            break
        made[at] = segment
    return "/".join(made)


def raw_of(path: str) -> bytes:
    """The raw bytes of a path."""
    return path.encode("utf-8", "surrogateescape")


def unwritable(definition: Definition, target: bytes, path: str) -> str | None:
    """Why a path may not be written for a target, or None."""
    parts = path.split("/")
    if path.startswith("/") or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        return f"{path!r} is not a plain path below the workspace"
    if is_state_path(path):
        return f"{path} is a place of the runtime itself"
    if means(below(definition, definition["writes"]["files"], target), raw_of(path)) is None:
        return f"{path} is outside of writes"
    return None
