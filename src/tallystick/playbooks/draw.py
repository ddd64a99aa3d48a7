"""Drawings of a net: Mermaid and DOT, from the normal form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def drawn(document: Mapping[str, Any], form: str) -> str:
    """The net as text in one of the forms; steps are numbered, so no name needs quoting twice."""
    return _dot(document) if form == "dot" else _mermaid(document)


def _arcs(document: Mapping[str, Any]) -> list[tuple[int, int, str, bool]]:
    order = {step["step"]: i for i, step in enumerate(document["steps"])}
    made: list[tuple[int, int, str, bool]] = []
    for step in document["steps"]:
        router = step.get("next", {"arcs": [], "mode": ""})
        for arc in router["arcs"]:
            if arc["step"] in order:
                guard = "" if "when" not in arc else str(arc["when"])
                wide = router["mode"] == "inclusive"
                made.append((order[step["step"]], order[arc["step"]], guard, wide))
    return made


def _label(step: Mapping[str, Any]) -> str:
    marks = [word for word in ("loop", "join", "admit") if word in step]
    return str(step["step"]) + (f" ({', '.join(marks)})" if marks else "")


def _mermaid(document: Mapping[str, Any]) -> str:
    lines = ["flowchart TD"]
    for i, step in enumerate(document["steps"]):
        lines.append(f'  s{i}["{_label(step)}"]')
    for start, end, guard, wide in _arcs(document):
        arrow = "==>" if wide else "-->"
        text = guard.replace('"', "#quot;").replace("|", "#124;")
        lines.append(f"  s{start} {arrow}" + (f'|"{text}"| s{end}' if text else f" s{end}"))
    return "\n".join(lines) + "\n"


def _dot(document: Mapping[str, Any]) -> str:
    lines = ["digraph net {"]
    for i, step in enumerate(document["steps"]):
        lines.append(f"  s{i} [label={_quoted(_label(step))}];")
    for start, end, guard, wide in _arcs(document):
        style = ", style=bold" if wide else ""
        lines.append(f"  s{start} -> s{end} [label={_quoted(guard)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
