"""The settings of executors: which run, where an effect goes, and the keys of each section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tallystick.errors import Rejected
from tallystick.node.config_read import from_one, nearest, one_of, read_section, size, table

REPEAT: Final = "repeat"
FAIL: Final = "fail"


@dataclass(frozen=True, slots=True)
class HttpExecutor:
    """`[executors.http]`."""

    slots: int = from_one(64)
    per_host: int = 8
    timeout_s: float = 60.0
    max_bytes: int = size("16MiB")
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class TimerExecutor:
    """`[executors.timer]`."""

    catchup_rate: int = from_one(1_000)


@dataclass(frozen=True, slots=True)
class BlobExecutor:
    """`[executors.blob]`."""

    slots: int = from_one(64)
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class FileExecutor:
    """`[executors.file]`."""

    workspaces: Mapping[str, Any] = table({"project": "."})
    max_bytes: int = size("64MiB")
    slots: int = from_one(16)
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class ShellExecutor:
    """`[executors.shell]` and `[executors.python]`."""

    slots: int = from_one(4)
    isolation: str = "bubblewrap"
    cpu_s: float = 60.0
    memory: int = size("512MiB")
    procs: int = 64
    timeout_s: float = 60.0
    max_bytes: int = size("16MiB")
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class SqlExecutor:
    """`[executors.sql]`."""

    slots: int = from_one(8)
    dbs: Mapping[str, Any] = table({})
    timeout_s: float = 60.0
    max_bytes: int = size("16MiB")
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class LlmExecutor:
    """`[executors.llm]`."""

    slots: int = from_one(8)
    providers: Mapping[str, Any] = table({"local": {}})
    timeout_s: float = 60.0
    max_bytes: int = size("16MiB")
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class HumanExecutor:
    """`[executors.human]`: people have no slots, and an open ask outlives every start."""


@dataclass(frozen=True, slots=True)
class OtherExecutor:
    """`[executors.telemetry]`."""

    slots: int = from_one(1_000)
    on_restart: str = "repeat"


@dataclass(frozen=True, slots=True)
class PlaybookExecutor:
    """`[executors.playbook]`."""

    slots: int = from_one(64)
    on_restart: str = "repeat"


EXECUTORS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "timer": TimerExecutor,
        "http": HttpExecutor,
        "blob": BlobExecutor,
        "file": FileExecutor,
        "shell": ShellExecutor,
        "python": ShellExecutor,
        "sql": SqlExecutor,
        "llm": LlmExecutor,
        "human": HumanExecutor,
        "telemetry": OtherExecutor,
        "playbook": PlaybookExecutor,
    }
)
# Shell and python run other programs, so they are off until somebody says so.
ENABLED: Final = ("timer", "http", "blob", "file", "sql", "llm", "human", "telemetry", "playbook")


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Which executors run, where an effect is routed, and the settings of each by its name."""

    enabled: tuple[str, ...] = ENABLED
    routes: Mapping[str, Any] = table({})
    each: Mapping[str, Mapping[str, Any]] = table({})

    def of(self, name: str) -> Mapping[str, Any]:
        """The settings of one executor, defaults filled in; empty for one that has no section."""
        return self.each.get(name, MappingProxyType({}))


def read_executors(raw: Mapping[str, Any], env: Mapping[str, str]) -> ExecutorSettings:
    """`[executors]` and its sections; refuses an executor that is neither ours nor enabled."""
    plain = {key: value for key, value in raw.items() if key in ("enabled", "routes")}
    # A setting of one executor starts like one of the section, so those are not read here.
    prefixes = tuple(f"TALLY_EXECUTORS_{name.upper()}_" for name in EXECUTORS)
    mine = {key: value for key, value in env.items() if not key.startswith(prefixes)}
    top = read_section(_Top, "executors", plain, mine)
    each: dict[str, Mapping[str, Any]] = {}
    for name, given in raw.items():
        if name in plain:
            continue
        if name not in EXECUTORS and name not in top.enabled:
            raise nearest("executor", name, [*EXECUTORS, *top.enabled])
        if not isinstance(given, Mapping):
            raise Rejected(
                f"[executors.{name}] is a section", code="config.type", where={"key": name}
            )
        each[name] = given
    for name, cls in EXECUTORS.items():
        section: Any = read_section(cls, f"executors.{name}", each.get(name, {}), env)
        each[name] = MappingProxyType({key: getattr(section, key) for key in cls.__slots__})  # type: ignore[attr-defined]  # a slotted dataclass
    for name, known in each.items():
        # A word that nobody knows must not be taken for the one that performs an effect again.
        one_of(f"executors.{name}.on_restart", str(known.get("on_restart", REPEAT)), (REPEAT, FAIL))
    return ExecutorSettings(top.enabled, top.routes, MappingProxyType(each))


@dataclass(frozen=True, slots=True)
class _Top:
    """The keys of `[executors]` itself."""

    enabled: tuple[str, ...] = ENABLED
    routes: Mapping[str, Any] = table({})
