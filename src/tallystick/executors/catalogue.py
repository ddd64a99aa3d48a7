"""Which executors there are: the built-in ones, and those that other packages bring.

A package brings one by the entry point group `tallystick.executors`:

    [project.entry-points."tallystick.executors"]
    payments = "acme.tally:Payments"

The object behind the entry is called with settings and ports, like `make` of a built-in one, and
gives an executor; its section in the settings has its name, and its keys are its own business.
A built-in name cannot be taken over by a package.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, get_args

from tallystick.errors import Rejected, TallyError, UnknownName
from tallystick.executors import (
    blob,
    echo,
    file,
    http,
    llm,
    playbook,
    python,
    shell,
    sql,
    telemetry,
)
from tallystick.executors.base import Executor, ExecutorFactory, ExecutorPorts, Repeat

GROUP: Final = "tallystick.executors"

FACTORIES: Final[Mapping[str, ExecutorFactory]] = MappingProxyType(
    {
        "blob": blob.make,
        "echo": echo.make,
        "file": file.make,
        "http": http.make,
        "llm": llm.make,
        "playbook": playbook.make,
        "python": python.make,
        "shell": shell.make,
        "sql": sql.make,
        "telemetry": telemetry.make,
    }
)

# Names that settings may enable although no job is ever made for them.
# A timer is due in the kernel, and an ask is answered by a person through the node: an executor
# that waited for either would hold a slot for days and forget everything at a restart, while the
# open intent is durable and the node's heap and inbox are rebuilt from it.
WITHOUT_JOBS: Final = frozenset(("human", "timer"))


def make_executor(name: str, settings: Mapping[str, Any], ports: ExecutorPorts) -> Executor:
    """The executor of a name: built in, brought by a package, or given as `module:Object`.

    Refuses a name that nobody brings with `executor.unknown`, and one that cannot be imported or
    is no executor with `executor.broken`.
    """
    factory = FACTORIES.get(name)
    if factory is not None:
        return factory(settings, ports)
    spec = name if ":" in name else _entry(name).value
    found = _load(spec)
    try:
        made = found(settings, ports)
    except TallyError:
        raise  # a refusal in our own words
    except Exception as why:
        raise _broken(spec, f"it cannot be made: {_raised(why)}") from why
    return checked(made, spec)


def brought() -> dict[str, str]:
    """The names that installed packages bring, with the object behind each, sorted."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return {entry.name: entry.value for entry in found if entry.name not in FACTORIES}


def _entry(name: str) -> EntryPoint:
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise UnknownName(
            f"no executor {name!r}",
            code="executor.unknown",
            where={"name": name},
            hint=f"install a package that brings it as an entry point of {GROUP}",
        )
    if len({entry.value for entry in found}) > 1:
        raise Rejected(
            f"several packages bring an executor {name!r}",
            code="executor.ambiguous",
            where={"name": name, "objects": sorted(entry.value for entry in found)},
            hint="name the object itself: module:Object",
        )
    return found[0]


def _load(spec: str) -> Any:
    module, _, path = spec.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as why:
        raise _broken(spec, f"it cannot be imported: {_raised(why)}") from why
    return found


def _raised(why: Exception) -> str:
    """What somebody else's code raised, and where."""
    place = extract_tb(why.__traceback__)[-1]
    return f"{type(why).__name__}: {why} ({Path(place.filename).name}:{place.lineno})"


def checked(made: Any, spec: str) -> Executor:
    """The executor, if it is one; the words of its protocol are looked at, not its work."""
    missing = [
        name for name in ("perform", "cancel", "close") if not callable(getattr(made, name, None))
    ]
    if missing:
        raise _broken(spec, f"it has no {', '.join(missing)}")
    effects, slots = getattr(made, "effects", None), getattr(made, "slots", None)
    if type(getattr(made, "name", None)) is not str or not made.name:
        raise _broken(spec, "its name is not a text")
    if not isinstance(effects, frozenset) or not all(type(name) is str for name in effects):
        raise _broken(spec, "its effects are not a frozenset of names")
    if type(slots) is not int or slots < 1:
        raise _broken(spec, "its slots are not a number from 1")
    if getattr(made, "repeat", None) not in get_args(Repeat):
        raise _broken(spec, f"its repeat is none of {', '.join(get_args(Repeat))}")
    found: Executor = made
    return found


def _broken(spec: str, why: str) -> Rejected:
    return Rejected(
        f"{spec}: {why}",
        code="executor.broken",
        where={"object": spec},
        hint="an executor follows the protocol of tallystick.executors.base",
    )
