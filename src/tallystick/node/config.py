"""Settings of a node: `tally.toml` beside `.tally/`, with `TALLY_<SECTION>_<KEY>` on top.

A section is a frozen dataclass and its fields are its keys; the type of a key is the type of its
default, so there is no second table to keep equal.
Sizes ("256MiB") are bytes and durations ("24h") are nanoseconds once they are read.
Nothing here changes what a replay computes: limits, policy and budgets stand in the manifest.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from types import MappingProxyType
from typing import Any, Final

from tallystick.errors import Rejected
from tallystick.node.config_executors import ExecutorSettings, read_executors
from tallystick.node.config_read import (
    duration,
    from_one,
    nearest,
    one_of,
    read_section,
    size,
    table,
)

FILE: Final = "tally.toml"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("json", "text")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The process and its worlds."""

    data: str = ".tally"
    name: str = field(default_factory=gethostname, metadata={"text": "<host>"})
    drain_s: float = 5.0
    snapshot_every: int = 10_000
    cell_cache: int = 4_096
    resident_bytes_max: int = size("256MiB")


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """When a commit is taken, and which blobs become files."""

    max_frames: int = 256
    max_bytes: int = size("1MiB")
    max_wait_ms: float = 2.0
    spill: int = size("1MiB")


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """The lane of new events."""

    queue: int = 10_000
    queue_bytes: int = size("64MiB")
    batch_max: int = 1_000


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How many intents are performed at once, and how fast they are taken up after a start."""

    slots: int = from_one(1_000)
    max_backlog: int = 50_000
    resume_rate: int = 2_000


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The listener; another address than loopback needs TLS or `--insecure`."""

    listen: str = "127.0.0.1:8255"
    hosts: tuple[str, ...] = ()
    tls_cert: str = ""
    tls_key: str = ""
    max_body: int = size("1MiB")
    max_blob: int = size("256MiB")
    max_header: int = size("16KiB")
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    conns_per_client: int = 64
    session_idle_h: float = 12.0
    feed_buffer: int = 10_000


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Leases of remote workers."""

    lease_s: float = 30.0
    max_lease_s: float = 600.0


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How workspaces are watched (08 section 6)."""

    settle_ms: int = 200
    max_settle_ms: int = 2_000
    rescan_s: float = 60.0
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """Further actions of reactions: effects by name, with their params and slot (F-21)."""

    actions: Mapping[str, Any] = table({})


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What garbage collection may take."""

    snapshots: int = 10
    blob_grace: int = duration("24h")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What the node says in `logs/node.jsonl`, and how: `json` lines or `text` ones."""

    level: str = "info"
    format: str = "json"

    def __post_init__(self) -> None:
        one_of("log.level", self.level, LOG_LEVELS)
        one_of("log.format", self.format, LOG_FORMATS)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Whether `/metrics` is open without a token."""

    open: bool = False


@dataclass(frozen=True, slots=True)
class OtelSettings:
    """Where spans and figures go by OTLP over HTTP; nowhere without an endpoint."""

    endpoint: str = ""
    service: str = "tally"
    sample: float = 1.0


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a node; `base` is the folder that relative paths start from."""

    base: Path
    node: NodeSettings = NodeSettings()
    journal: JournalSettings = JournalSettings()
    ingress: IngressSettings = IngressSettings()
    dispatch: DispatchSettings = DispatchSettings()
    http: HttpSettings = HttpSettings()
    executors: ExecutorSettings = field(default_factory=lambda: read_executors({}, {}))
    work: WorkSettings = WorkSettings()
    watch: WatchSettings = WatchSettings()
    reactions: ReactionSettings = field(default_factory=ReactionSettings)
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    otel: OtelSettings = OtelSettings()

    @property
    def data(self) -> Path:
        """The folder of the node's files."""
        return self.base / self.node.data


SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "node": NodeSettings,
        "journal": JournalSettings,
        "ingress": IngressSettings,
        "dispatch": DispatchSettings,
        "http": HttpSettings,
        "work": WorkSettings,
        "watch": WatchSettings,
        "reactions": ReactionSettings,
        "retention": RetentionSettings,
        "log": LogSettings,
        "metrics": MetricsSettings,
        "otel": OtelSettings,
    }
)


def load_config(base: Path, env: Mapping[str, str]) -> Config:
    """Read `tally.toml` of a folder, if there is one, and what the environment says over it.

    Refuses text that is not TOML, an unknown section or key, and a value of another type, with
    `config.*` codes; the nearest known name is in the hint.
    """
    path = base / FILE
    raw: dict[str, Any] = {}
    if path.exists():
        try:
            raw = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
            raise Rejected(
                f"{path} is not TOML: {why}", code="config.syntax", where={"file": str(path)}
            ) from why
    return config_of(base, raw, env)


def config_of(base: Path, raw: Mapping[str, Any], env: Mapping[str, str]) -> Config:
    """The settings that a document and an environment give; pure but for the host's name."""
    known = [*SECTIONS, "executors"]
    for name, given in raw.items():
        if name not in known:
            raise nearest("section", name, known)
        if not isinstance(given, Mapping):
            raise Rejected(f"[{name}] is a section", code="config.type", where={"key": name})
    sections: dict[str, Any] = {
        name: read_section(cls, name, raw.get(name, {}), env) for name, cls in SECTIONS.items()
    }
    return Config(base, executors=read_executors(raw.get("executors", {}), env), **sections)
