"""How executions and findings of playbooks are shown to people."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rich.console import Console

from tallystick.cli import show

_SLOT: Final = re.compile(r"slot tool\.(\w+) is not bound")


def findings(console: Console, value: Any) -> None:
    """Each finding with its place and its hint, and the verdict."""
    for row in value["findings"]:
        place = f"{row['file']}:{row['line']}:{row['col']}"
        show.line(console, f"{place} {row['severity']} {row['code']} {row['message']}")
        show.line(console, f"    {row['hint']}")
    console.print("ok" if value["ok"] else "refused")


def text(console: Console, value: Any) -> None:
    """A drawing, or why there is none."""
    if "text" in value:
        console.print(value["text"], markup=False, soft_wrap=True, end="")
    else:
        findings(console, value)


def execution(console: Console, value: Any) -> None:
    """An execution for people: its steps, and every token and run that waits, with the reason."""
    if "execution" not in value:
        show.fields(console, value)
        return
    show.line(console, f"{value['execution']}: {value.get('status', 'begun')}")
    for step, runs in value.get("step_runs", {}).items():
        loops = value["iterations"].get(step)
        more = "" if loops is None else f", {loops} iterations"
        show.line(console, f"  {step}: {runs} runs{more}")
    for row in value.get("failures", ()):
        state = "handled" if row["handled"] else "failed"
        show.line(console, f"  {row['step']} {state}: {row['code']} {row['message']}")
    lacking = sorted({kind for row in value.get("failures", ()) for kind in _lacking(row)})
    if lacking:
        show.line(console, f"  hint: allow it with --allow {','.join(lacking)}")
    for row in value.get("grants", ()):
        end = "" if row["revoked"] is None else f", revoked: {row['revoked']}"
        show.line(console, f"  may use {row['kind']} by {row['name']}{end}")
    for row in value.get("pending", ()):
        show.line(console, f"  {row['token']} waits at the gate of {row['step']}:")
        for rule in row["rules"]:
            show.line(console, f"    {rule['when']} -> allow {rule['allow']}")
        for name, held in row["waits"].items():
            show.line(console, f"    {name} is {json.dumps(held)}")
    _waits(console, value)


def _waits(console: Console, value: Any) -> None:
    """What runs wait for, and what only others can bring."""
    for row in value.get("waiting", ()):
        why = row.get("why") or row.get("name") or row.get("child") or ""
        show.line(console, f"  {row['step']} waits for {row['for']} {why}".rstrip())
    if "lacks" in value:
        for text in value["lacks"]:
            show.line(console, f"  {text}")
        show.line(console, f"  hint: {value['hint']}")


def _lacking(row: Any) -> list[str]:
    """The kind of tool that a failed step was not allowed."""
    found = _SLOT.search(row["message"] or "") if row["code"] == "cap.unbound" else None
    return [] if found is None else [found[1]]


def events(console: Console, value: Any) -> None:
    """A line for each event; an execution where no events were asked for."""
    if "items" not in value:
        execution(console, value)
        return
    for row in value["items"]:
        unit = "" if row["iteration"] is None else f"[{row['iteration']}]"
        place = f"{row['step'] or ''}{unit} {row['token'] or ''}"
        show.line(console, f"{row['seq']:>7} {row['event_type']:26} {place}")
    show.more(console, value)
