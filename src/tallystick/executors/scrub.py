"""Scrubbing: the value of a secret leaves an executor in no spelling that we know.

Theory of operation.
A scrubber knows the resolved values of one job and replaces each, in every spelling of
`executors/spelling.py`, by `«secret:NAME»`, and counts what it replaced.
It walks whole values: texts, bytes, lists, and maps with their keys.
The node scrubs outcome, error, progress and log of every executor, the custom ones too, before
anything is sealed; blobs are scrubbed before they are hashed.

A stream may cut a secret in two.
So a progress frame that ends inside a spelling waits until the next one shows how it goes on: then
the marker stands where the secret began and the rest is gone, or the frames leave as they were.
A place of a stream is its kind and the path in its payload; frames keep their order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

from tallystick.executors.base import Blobs, Failed, Job, Ok, Outcome
from tallystick.executors.spelling import (
    Spelling,
    pattern_of,
    spellings,
    spellings_in_bytes,
    unfinished,
)

Path: TypeAlias = tuple[str | int, ...]
Frame: TypeAlias = tuple[str, Any]  # kind and payload


@dataclass(frozen=True, slots=True)
class _Known:
    """One secret in one alphabet: what replaces it, its rows, and a search for each."""

    marker: str
    rows: tuple[Spelling, ...]
    # One search a row: the engine skips fast to the first character of a row, not of several.
    searches: tuple[re.Pattern[str], ...]


def _known(marker: str, rows: tuple[Spelling, ...]) -> _Known:
    return _Known(marker, rows, tuple(re.compile(pattern_of(row)) for row in rows))


class Scrubber:
    """Replaces the secrets it knows; `redacted` counts the replacements by name.

    `values` maps names to values; longer ones are looked for first, so that they go whole.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))
        named = [(name, value) for name, value in ordered if value]
        self._texts = [_known(f"«secret:{name}»", spellings(value)) for name, value in named]
        self._bytes = [
            _known(f"«secret:{name}»".encode().decode("latin-1"), spellings_in_bytes(value))
            for name, value in named
        ]
        self._names = [name for name, _ in named]
        self.values = dict(named)
        self.redacted: Counter[str] = Counter()

    @classmethod
    def of(cls, job: Job, also: Mapping[str, str] | None = None) -> Scrubber:
        """The scrubber of a job's own secrets, those its executor used, and those of its blobs."""
        held = job.blobs.values if isinstance(job.blobs, ScrubbedBlobs) else {}
        mine = {_name_at(job.params, path): value for path, value in job.secrets.items()}
        return cls({**held, **(also or {}), **mine})

    @property
    def knows_any(self) -> bool:
        """False when there is nothing to look for."""
        return bool(self._names)

    def text(self, text: str) -> str:
        """The text without secrets."""
        return self._replaced(text, self._texts) if self._texts else text

    def octets(self, body: bytes) -> bytes:
        """The bytes without secrets."""
        if not self._bytes:
            return body
        read = body.decode("latin-1")
        clean = self._replaced(read, self._bytes)
        return body if clean == read else clean.encode("latin-1")

    def cut_text(self, text: str) -> str:
        """A text that was cut off at its end, without secrets and without the beginning of one."""
        clean = self.text(text)
        return clean[: self.open_end(clean, octets=False)]

    def cut_octets(self, body: bytes) -> bytes:
        """The same for bytes."""
        clean = self.octets(body)
        return clean[: self.open_end(clean.decode("latin-1"), octets=True)]

    def value(self, value: Any) -> Any:
        """The value without secrets, in its texts, bytes and keys at any depth."""
        match value:
            case str():
                return self.text(value)
            case bytes() | bytearray() | memoryview():
                return self.octets(bytes(value))
            case Mapping():
                return {self.value(key): self.value(part) for key, part in value.items()}
            case list() | tuple() | set() | frozenset():
                return type(value)(self.value(part) for part in value)
            case _:
                return value

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome without secrets: the value, or code and message of a failure."""
        match outcome:
            case Ok():
                return replace(outcome, value=self.value(outcome.value))
            case Failed():
                # A message is often the beginning of what somebody else has said.
                return replace(
                    outcome, code=self.text(outcome.code), message=self.cut_text(outcome.message)
                )

    def spans(self, text: str, *, octets: bool) -> list[tuple[int, int, str]]:
        """Where secrets stand in a text: start, end and marker, in order and apart."""
        found: list[tuple[int, int, str]] = []
        for known in self._bytes if octets else self._texts:
            for match in (m for search in known.searches for m in search.finditer(text)):
                start, end = match.span()
                if all(end <= low or high <= start for low, high, _ in found):
                    found.append((start, end, known.marker))
        return sorted(found)

    def open_end(self, text: str, *, octets: bool) -> int | None:
        """Where a secret begins that the text does not finish, or None."""
        known = self._bytes if octets else self._texts
        starts = [unfinished(text, row) for each in known for row in each.rows]
        return min((start for start in starts if start is not None), default=None)

    def count(self, marker: str, *, octets: bool) -> None:
        """Count one replacement that was made elsewhere."""
        markers = [known.marker for known in (self._bytes if octets else self._texts)]
        self.redacted[self._names[markers.index(marker)]] += 1

    def _replaced(self, text: str, known: list[_Known]) -> str:
        for name, each in zip(self._names, known, strict=True):
            for search in each.searches:
                # The marker holds no backslash, so it is no template.
                text, times = search.subn(each.marker, text)
                if times:
                    self.redacted[name] += times
        return text


def _name_at(params: Any, path: str) -> str:
    """The alias of the reference at a pointer; the pointer itself where there is none."""
    found: Any = params
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    reference = found["$value"]
    return f"{reference['alias']}@{reference['version']}"


class ScrubbedBlobs:
    """The blobs of a world, scrubbed before they are hashed; reading is as it was."""

    def __init__(self, blobs: Blobs, scrubber: Scrubber) -> None:
        self._blobs = blobs
        self._scrubber = scrubber

    @property
    def values(self) -> dict[str, str]:
        """The secrets that are looked for here and behind it, by name."""
        behind = self._blobs.values if isinstance(self._blobs, ScrubbedBlobs) else {}
        return {**behind, **self._scrubber.values}

    def get(self, hash_text: str) -> bytes | None:
        """The bytes of a blob, or None."""
        return self._blobs.get(hash_text)

    def put(self, body: bytes) -> str:
        """The hash of the bytes without secrets."""
        return self._blobs.put(self._scrubber.octets(body))


class StreamScrubber:
    """Scrubs the progress of one job, also what stands across its frames.

    `feed` answers the frames that may leave now, `rest` those that waited when the job ended.
    """

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._waiting: list[Frame] = []

    def feed(self, kind: str, payload: Any) -> list[Frame]:
        """Take one frame; a frame waits while it ends inside a spelling of a secret."""
        self._waiting.append((kind, payload))
        if not self._scrubber.knows_any:
            return self.rest()
        keep = len(self._waiting)
        for place in _places(self._waiting):
            keep = min(keep, self._scrub_place(place))
        # Keys and places with a single frame are scrubbed here.
        ready = [(name, self._scrubber.value(body)) for name, body in self._waiting[:keep]]
        del self._waiting[:keep]
        return ready

    def rest(self) -> list[Frame]:
        """The frames that still wait; nothing follows, so nothing can be completed."""
        ready = [(name, self._scrubber.value(body)) for name, body in self._waiting]
        self._waiting.clear()
        return ready

    def _scrub_place(self, place: tuple[str, Path]) -> int:
        """Scrub one place over all waiting frames; the first frame that must wait on."""
        kind, path = place
        held = [
            (index, leaf)
            for index, (name, body) in enumerate(self._waiting)
            if name == kind and isinstance(leaf := _leaf(body, path), str | bytes)
        ]
        octets = bool(held) and isinstance(held[0][1], bytes)
        leaves = [(at, leaf) for at, leaf in held if isinstance(leaf, bytes) == octets]
        texts = [leaf.decode("latin-1") if isinstance(leaf, bytes) else leaf for _, leaf in leaves]
        cleaned = self._cleaned(texts, octets=octets)
        for (index, _), clean in zip(leaves, cleaned, strict=True):
            name, body = self._waiting[index]
            leaf = clean.encode("latin-1") if octets else clean
            self._waiting[index] = (name, _with_leaf(body, path, leaf))
        start = self._scrubber.open_end("".join(cleaned), octets=octets)
        if start is None:
            return len(self._waiting)
        return leaves[_frame_at(cleaned, start)][0]

    def _cleaned(self, texts: list[str], *, octets: bool) -> list[str]:
        """The texts, in which a secret that runs over their borders is gone."""
        for low, high, marker in reversed(self._scrubber.spans("".join(texts), octets=octets)):
            first, at = _frame_at(texts, low), 0
            self._scrubber.count(marker, octets=octets)
            out = []
            for index, text in enumerate(texts):
                cut_from, cut_to = max(low - at, 0), min(high - at, len(text))
                at += len(text)
                mark = marker if index == first else ""
                inside = cut_from < cut_to
                out.append(text[:cut_from] + mark + text[cut_to:] if inside else text)
            texts = out
        return texts


def _frame_at(texts: list[str], position: int) -> int:
    """The index of the text that holds a position of their sum."""
    ends = list(accumulate(map(len, texts)))
    return min(bisect_right(ends, position), len(texts) - 1)


def _places(frames: list[Frame]) -> list[tuple[str, Path]]:
    """Every kind and path of a text in the frames, once, in order."""
    found = [(kind, path) for kind, body in frames for path in _paths(body, ())]
    return list(dict.fromkeys(found))


def _paths(value: Any, at: Path) -> Iterator[Path]:
    match value:
        case str() | bytes():
            yield at
        case Mapping():
            for key, part in value.items():
                yield from _paths(part, (*at, key))
        case list() | tuple():
            for index, part in enumerate(value):
                yield from _paths(part, (*at, index))
        case _:
            return


def _leaf(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with_leaf(value: Any, path: Path, leaf: Any) -> Any:
    if not path:
        return leaf
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        return {key: _with_leaf(v, rest, leaf) if key == step else v for key, v in value.items()}
    return [_with_leaf(v, rest, leaf) if i == step else v for i, v in enumerate(value)]
