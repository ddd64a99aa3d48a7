"""YAML 1.2 with positions, read strictly: the core schema, one document, text keys.

Theory of operation.
PyYAML gives events, and a value is built from them with a stack of our own: nothing recurses, so
depth, nodes and aliases are counted before anything is built from them.
YAML 1.1 would read `no`, `on`, `12:30` and dates as something else than text; the core schema
does not.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import yaml

Path = tuple[str | int, ...]
BYTES_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 64
NODES_MAX: Final = 100_000

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT: Final = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_INT_BOUND: Final = 2**63

# libyaml is many times faster and gives the same events; without it the pure scanner serves.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Place(NamedTuple):
    """A position in the text, counted from 1."""

    line: int
    col: int


class Source(NamedTuple):
    """A value, and where each part of it stands."""

    value: Any
    places: dict[Path, Place]

    def place(self, path: Path) -> Place:
        """Where a path stands, or the nearest part above it that stands in the text."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))


class NotYamlError(Exception):
    """The text is not a document that is read here; `code` is P101 or P102."""

    def __init__(self, code: str, place: Place, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.place = place
        self.message = message
        self.hint = hint


class _Open:
    """A list or map that is being filled."""

    __slots__ = ("anchor", "at", "count", "held", "key", "path")

    def __init__(self, held: Any, path: Path, at: Place, anchor: str | None) -> None:
        self.held = held
        self.path = path
        self.at = at
        self.anchor = anchor
        self.key: str | None = None
        self.count = 1


class _Builder:
    """Builds one value out of events."""

    def __init__(self) -> None:
        self.stack: list[_Open] = []
        self.places: dict[Path, Place] = {}
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0
        self.root: Any = None

    def event(self, event: Any) -> None:
        """Take one event of the scanner."""
        at = _place(event)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, at)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event, at)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._start(event, at)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._end()

    def _scalar(self, event: Any, at: Place) -> None:
        _check_tag(event.tag, at)
        value = event.value
        if event.style in (None, "") and event.implicit[0]:
            value = _plain(value, at)
        self._add(value, 1, at, event.anchor)

    def _alias(self, event: Any, at: Place) -> None:
        if event.anchor not in self.anchors:
            raise NotYamlError("P101", at, f"the alias *{event.anchor} names no finished node")
        value, size = self.anchors[event.anchor]
        self._add(value, size, at, None)

    def _start(self, event: Any, at: Place) -> None:
        _check_tag(event.tag, at)
        if len(self.stack) >= DEPTH_MAX:
            raise NotYamlError("P101", at, f"nesting over {DEPTH_MAX} levels")
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.held, dict) and top.key is None:
            raise NotYamlError("P101", at, "a key is a list or a map", "write the key as text")
        held: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(held, self._path(), at, event.anchor))

    def _end(self) -> None:
        done = self.stack.pop()
        self._add(done.held, done.count, done.at, done.anchor)

    def _path(self) -> Path:
        if not self.stack:
            return ()
        top = self.stack[-1]
        if isinstance(top.held, dict):
            assert top.key is not None, "a key comes before its value"
            return (*top.path, top.key)
        return (*top.path, len(top.held))

    def _add(self, value: Any, size: int, at: Place, anchor: str | None) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.held, dict) and top.key is None:
            self._key(top, value, at)
            return
        self.places.setdefault(self._path(), at)
        if anchor is not None:
            self.anchors[anchor] = (value, size)
        self.nodes += 1
        if top is None:
            self.root = value
            return
        top.count += size
        # A list of aliases of lists of aliases is small as text and huge as a value.
        if top.count > NODES_MAX or self.nodes > NODES_MAX:
            raise NotYamlError("P101", at, f"over {NODES_MAX} nodes, aliases written out")
        if isinstance(top.held, dict):
            assert top.key is not None, "a key comes before its value"
            top.held[top.key] = value
            top.key = None
        else:
            top.held.append(value)

    def _key(self, top: _Open, key: Any, at: Place) -> None:
        if type(key) is not str:
            raise NotYamlError(
                "P101", at, f"the key {key!r} is not text", f'write "{key}" in quotes'
            )
        if key == "<<":
            raise NotYamlError("P101", at, "the merge key << is not YAML 1.2", "write the keys out")
        if key in top.held:
            first = self.places[(*top.path, key)]
            raise NotYamlError("P102", at, f"{key} stands twice, first in line {first.line}")
        top.key = key
        self.places[(*top.path, key)] = at


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _check_tag(tag: str | None, at: Place) -> None:
    if tag not in (None, "!"):
        raise NotYamlError("P101", at, f"the tag {tag} is not read here", "remove the tag")


def _plain(text: str, at: Place) -> Any:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text) is not None:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        number = int(text, base) if len(text) < 80 else _INT_BOUND
        if not -_INT_BOUND <= number < _INT_BOUND:
            raise NotYamlError("P101", at, "an integer is over 64 bits", "write it in quotes")
        return number
    if _SPECIAL.match(text) is not None:
        raise NotYamlError("P101", at, f"{text} is not a finite number", "write it in quotes")
    if _FLOAT.match(text) is not None:
        real = float(text)
        if real in (float("inf"), float("-inf")):
            raise NotYamlError("P101", at, f"{text} is not a finite number", "write it in quotes")
        return real
    return text


def read(text: str) -> Source:
    """The one document of a text; raises NotYamlError for the first thing that is wrong."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > BYTES_MAX:
        raise NotYamlError("P101", Place(1, 1), f"the file has {size} bytes, over {BYTES_MAX}")
    builder = _Builder()
    documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    at = _place(event)
                    raise NotYamlError("P101", at, "a second document", "one file, one document")
            builder.event(event)
    except yaml.MarkedYAMLError as why:
        mark = why.problem_mark or why.context_mark
        at = Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)
        raise NotYamlError("P101", at, f"not YAML: {why.problem or why.context}") from None
    except (yaml.YAMLError, ValueError, UnicodeError) as why:
        raise NotYamlError("P101", Place(1, 1), f"not YAML: {why}") from None
    return Source(builder.root, builder.places)
