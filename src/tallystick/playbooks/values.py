"""Values as an execution keeps them: small ones in place, large ones by hash.

A kept value is `{"v": value}` or `{"h": hash, "n": bytes}`, with `shell` where a tool's result was
too large to pass on: what templates see of it without reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from tallystick.values import canon
from tallystick.values.expr import ExpressionFault

INLINE_MAX: Final = 1024
RESOLVE_MAX: Final = 1024 * 1024

Content = Callable[[str], bytes]
Kept = dict[str, Any]


def plain(value: Any) -> Any:
    """The same value of plain maps and lists only, as it can be written down."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@lru_cache(maxsize=64)
def _decoded(data: bytes) -> Any:
    """A stored value, shared by the ticks that read it: nobody changes what was read.

    A loop reads its items at every tick, and decoding them each time would cost as much as the
    loop is long.
    """
    return canon.decode(data)


class Values:
    """Keeps and reads values; `made` gathers the blobs that are new in this tick."""

    __slots__ = ("_content", "lasting", "made")

    def __init__(self, content: Content) -> None:
        self._content = content
        self.made: dict[str, bytes] = {}
        # Blobs that are kept though the state does not name them: others that it names do.
        self.lasting: dict[str, None] = {}

    def put(self, data: bytes) -> str:
        """A blob that is kept in any case; its name."""
        name = canon.hash_of(data)
        self.made[name] = data
        self.lasting[name] = None
        return name

    def keep(self, value: Any) -> Kept:
        """A value as it is kept."""
        data = canon.encode(value)
        if len(data) <= INLINE_MAX:
            return {"v": value}
        name = canon.hash_of(data)
        self.made[name] = data
        return {"h": name, "n": len(data)}

    def read(self, kept: Kept) -> Any:
        """The value; P207 when it is too large to be read where it was asked for."""
        if "h" not in kept:
            return kept["v"]
        if "shell" in kept:
            return Large(kept["shell"], lambda: self._load(kept))
        return self._load(kept)

    def blob(self, name: str) -> Any:
        """The value of a blob that this execution made."""
        return _decoded(self.raw(name))

    def raw(self, name: str) -> bytes:
        """The bytes of a blob."""
        data = self.made.get(name)
        return self._content(name) if data is None else data

    def _load(self, kept: Kept) -> Any:
        if kept["n"] > RESOLVE_MAX:
            raise ExpressionFault(
                f"a value of {kept['n']} bytes is over {RESOLVE_MAX}",
                code="P207",
                hint="name the fields in result.select, or read it with the tool artifact",
            )
        return self.blob(kept["h"])


class Large(dict[str, Any]):
    """A result that is kept elsewhere: its shell, and other members once somebody asks."""

    def __init__(self, shell: Mapping[str, Any], load: Callable[[], Any]) -> None:
        super().__init__(shell)
        self._load = load

    def get(self, key: Any, default: Any = None) -> Any:
        """A member of the shell, or of the value itself."""
        if key in self:
            return self[key]
        value = self._load()
        return value.get(key, default) if isinstance(value, dict) else default


class StepValue(dict[str, Any]):
    """The result of a step: `.results` and `.data` fall back when the value has no such key."""

    def __init__(self, value: Mapping[str, Any], tasks: Mapping[str, Any]) -> None:
        super().__init__(value)
        self._value = value
        self._tasks = tasks

    def get(self, key: Any, default: Any = None) -> Any:
        """A member of the value; else the results per task, or the value itself."""
        missing = object()
        found = self._value.get(key, missing)
        if found is not missing:
            return found
        if key == "results":
            return self._tasks
        return self._value if key == "data" else default


class Lazy(Mapping[str, Any]):
    """Kept values by name, each read when it is asked for."""

    __slots__ = ("_kept", "_values")

    def __init__(self, kept: Mapping[str, Kept], values: Values) -> None:
        self._kept = kept
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values.read(self._kept[key])

    def __iter__(self) -> Any:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


class Scope(Mapping[str, Any]):
    """Names in layers: the first layer that has one decides."""

    __slots__ = ("_layers",)

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)
