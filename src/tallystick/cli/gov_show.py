"""Changes of a bundle in words: what they change, what stands in their way, what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from tallystick.cli import show

ROWS_MAX: Final = 20
_WAYS: Final = {
    "add_def": "added",
    "replace_def": "changed",
    "remove_def": "removed",
    "set_section": "section",
}


def _rows(console: Console, rows: Sequence[str], count: int | None = None) -> None:
    """Some of the rows, and how many there are besides."""
    for row in rows[:ROWS_MAX]:
        show.line(console, f"  {row}")
    more = (len(rows) if count is None else count) - len(rows[:ROWS_MAX])
    if more > 0:
        show.line(console, f"  ... and {more} more; --json has them")


def proposed(console: Console, value: Any) -> None:
    """A proposal that was just made."""
    show.line(console, f"{value['proposal']}  {value['bundle']}")
    summary = value["summary"]
    rows = [
        f"{way:<8} {row['kind']} {row['name']}"
        for way in ("added", "changed", "removed")
        for row in summary[way]
    ]
    _rows(console, [*rows, *(f"{'section':<8} {name}" for name in summary["sections"])])
    show.line(console, f"next: tally gov shadow {value['proposal']}")


def proposal(console: Console, value: Any) -> None:
    """One proposal: all of its fields, with its patch as one line for each operation."""
    show.fields(console, {key: held for key, held in value.items() if key != "patch"})
    _rows(console, list(_operations(value["patch"])))
    todo = next_verb(value)
    if todo is not None:
        show.line(console, f"next: tally gov {todo} {value['proposal']}")


def _operations(patch: Mapping[str, Any]) -> Iterator[str]:
    for each in patch["patches"]:
        for word, held in each.items():
            node = held.get("new_node") or held.get("node") or held
            name = held.get("section") or f"{held.get('kind')} {node.get('name')}"
            yield f"{_WAYS.get(word, word):<8} {name}"


def next_verb(value: Mapping[str, Any]) -> str | None:
    """The verb that is missing, by the state of a proposal and the rules in force."""
    wanted = value["rules"]["require"]
    match value["state"]:
        case "submitted" | "shadowed" if "shadow" in wanted and not value["complete"]:
            return "shadow"
        case "submitted" | "shadowed" if "prove" in wanted and value["proof_hash"] is None:
            return "prove"
        case "submitted" | "shadowed":
            return "approve"
        case "approved":
            return "apply"
        case "stale":
            return "propose --rebase"
        case _:
            return None


def reported(console: Console, value: Any) -> None:
    """What a report says in a few lines."""
    report = value["report"]
    show.line(console, f"{value['proposal']}  {value['report_hash']}")
    for name in ("totals", "verdicts"):
        if name in report:
            held = ", ".join(f"{word} {count}" for word, count in report[name].items())
            show.line(console, f"{name}: {held}")
    if "statement" in report:
        show.line(console, report["statement"])
    _rows(console, [*_changes(report), *(_difference(row) for row in report.get("rows", ()))])
    if not value.get("complete", True):
        show.line(
            console, "stopped before its end, so it cannot be approved: take a shorter --tail"
        )
    elif value.get("next") not in (None, "apply"):  # how it is applied depends on what is open
        show.line(console, f"next: tally gov {value['next']} {value['proposal']}")


def voted(console: Console, value: Any) -> None:
    """A word on a proposal, and how many are missing."""
    missing = value["needed"] - value["approvals"]
    ident = value["proposal"]
    if value["decision"] != "approve":
        show.line(console, f"{ident} is rejected")
    elif missing > 0:
        show.line(console, f"{ident} has {value['approvals']} of {value['needed']} approvals")
    else:
        show.line(console, f"{ident} is approved")
        show.line(console, f"next: tally gov apply {ident}")


def _changes(report: Mapping[str, Any]) -> Iterator[str]:
    """What a shadow found: states by what differs inside, all else where it differs first."""
    for row in report.get("divergences", ()):
        if row["kind"] != "state":
            yield _difference(row)
    for row in report.get("state_deltas", ()):
        for part in row["diff"]:
            sides = " -> ".join(show.text_of(part.get(name)) for name in ("live", "shadow"))
            yield f"state  {row['workflow']}[{show.text_of(row['key'])}]  {part['path']}: {sides}"


def _difference(row: Mapping[str, Any]) -> str:
    """One line for a cell that would go on otherwise."""
    place = f"{row['workflow']}[{show.text_of(row['key'])}]"
    detail = row.get("detail") or row
    kind = row.get("verdict") or row.get("kind")
    at = f" at seq {detail['seq']}" if "seq" in detail else ""
    rest = {
        name: detail[name]
        for name in ("field", "diff", "live", "shadow", "from", "to", "item", "message")
        if detail.get(name) is not None
    }
    return f"{kind}  {place}{at}  {show.text_of(rest)}"


def blocked(console: Console, where: Mapping[str, Any]) -> None:
    """What is open and stands in the way of an apply, one a line."""
    rows = [_blocker(kind, detail) for kind, detail in where.get("blockers", ())]
    _rows(console, rows, where.get("count"))


def _blocker(kind: str, detail: Mapping[str, Any]) -> str:
    place = f"{detail.get('workflow')}[{_key(detail)}]"
    if kind == "intent_open":
        held = "" if detail.get("hold") is None else f"  held: {detail['hold']['kind']}"
        text = f"{detail['intent']}  {detail['effect']}  of {place}{held}"
    elif kind == "mailbox":
        text = f"{place}  {detail['events']} events"
    elif "verdict" in detail:
        text = _difference(detail)
    else:
        text = f"{place}  {detail.get('status', '')} since seq {detail.get('since_seq', '-')}"
    return f"{kind:<12} {text}"


def _key(detail: Mapping[str, Any]) -> str:
    """The key of a cell as people wrote it."""
    from tallystick.values import canon  # noqa: PLC0415  # only a refusal shows keys

    if "verdict" in detail:
        return show.text_of(detail["key"])
    raw = bytes.fromhex(str(detail.get("key", "")))
    return show.text_of(canon.decode(raw)) if raw else ""
