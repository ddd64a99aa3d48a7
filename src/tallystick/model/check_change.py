"""Change under check: upcasts of events and migrations of state (06 section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallystick.model.check_work import Definition, Place, Work
from tallystick.values.schema import compatible

_MIGRATION: Final = ("sys/MigrateState@1", "sys/MigratedState@1")


def check_upcasts(work: Work) -> None:
    """Each is pure, reads `from`, answers `to`; one per `from`, and none leads back."""
    readers: dict[str, str] = {}
    steps: dict[str, str] = {}
    for at, upcast in work.own("defupcast"):
        from_, to = upcast["from"], upcast["to"]
        work.schema(from_, at / "from")
        work.schema(to, at / "to")
        work.call(upcast["impl"], at / "impl", (from_, to), "upcast.not_pure")
        if from_ in readers:
            message = f"{readers[from_]} also reads {from_}"
            work.add("schema.upcast_ambiguous", at / "from", message, "keep one of the two")
        elif _leads(steps, to, from_):
            message = f"{to} leads back to {from_}"
            hint = "let upcasts lead to newer versions only"
            work.add("schema.upcast_ambiguous", at / "to", message, hint)
        else:
            readers[from_] = at.def_name
            steps[from_] = to


def _leads(steps: Mapping[str, str], start: str, end: str) -> bool:
    while start != end:
        if start not in steps:
            return False
        start = steps[start]
    return True


def check_migrations(work: Work) -> None:
    """Each is pure and leads forward; every older version of a state reaches the present one."""
    paths: dict[str, dict[int, int]] = {}
    for at, row in work.own("defmigration"):
        work.refer("defworkflow", row["workflow"], at / "workflow")
        work.call(row["impl"], at / "impl", _MIGRATION)
        known = paths.setdefault(row["workflow"], {})
        if row["from"] in known:
            message = f"two migrations of {row['workflow']} read version {row['from']}"
            work.add("def.duplicate", at / "from", message, "keep one of the two")
        elif row["to"] <= row["from"]:
            message = f"it leads from version {row['from']} to {row['to']}"
            work.add("migration.gap", at / "to", message, "lead to a later version")
        else:
            known[row["from"]] = row["to"]
    for at, flow in work.own("defworkflow"):
        _gaps(work, at, flow, paths.get(at.def_name, {}))


def _gaps(work: Work, at: Place, flow: Definition, steps: Mapping[int, int]) -> None:
    version = flow.get("state_version", 1)
    ends = (version, *flow.get("accepts_state_versions", ()))
    # Nobody has had a thousand versions; the bound is for a hostile number.
    older = [*range(1, min(version, 1_001))]
    active = work.against.workflows.get(at.def_name) if work.against is not None else None
    if active is not None and active.state_version > version:
        older.append(active.state_version)
    stuck = [start for start in older if _end(steps, start, ends) not in ends]
    if stuck:
        some = ", ".join(map(str, stuck[:8])) + (" and more" if len(stuck) > 8 else "")
        message = f"state of version {some} has no way to version {version}"
        last = _end(steps, stuck[0], ends)
        hint = f"write a defmigration from {last}, or list it in accepts_state_versions"
        work.add("migration.gap", at / "state_version", message, hint)
    new = work.schemas.get(flow["state"])
    if active is None or new is None or active.state_version != version:
        return
    # Under one name the change is `schema.not_additive` already.
    if active.state.name != new.name and compatible(active.state.type, new.type) is not None:
        message = f"the state was {active.state.name} and its values do not fit {new.name}"
        hint = "raise state_version and write a defmigration"
        work.add("migration.gap", at / "state_version", message, hint)


def _end(steps: Mapping[int, int], start: int, ends: tuple[int, ...]) -> int:
    """Where migrations lead from a version; each leads forward, so this ends."""
    while start not in ends and start in steps:
        start = steps[start]
    return start
