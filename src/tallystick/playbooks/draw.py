"""Drawings of a net, with its tokens where an execution is shown: Mermaid, DOT, PNML, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

FORMS: Final = ("mermaid", "dot", "pnml", "json")
_FREE_MAX: Final = 6  # arcs of one inclusive router whose choices are drawn one by one

Marking = Mapping[str, Any]


def drawn(document: Mapping[str, Any], form: str, marking: Marking | None = None) -> str:
    """The net as text in one of the forms; steps are numbered, so no name needs quoting twice."""
    draw = {"dot": _dot, "pnml": _pnml, "json": _json}.get(form, _mermaid)
    return draw(document, _held(marking))


def _held(marking: Marking | None) -> dict[str, tuple[int, int]]:
    """Step -> how many tokens wait for it, and how many runs it has."""
    found: dict[str, tuple[int, int]] = {}
    if marking is None:
        return found
    for step, _ in marking["tokens"].values():
        tokens, runs = found.get(step, (0, 0))
        found[step] = (tokens + 1, runs)
    for step in marking["runs"].values():
        tokens, runs = found.get(step, (0, 0))
        found[step] = (tokens, runs + 1)
    return found


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


def _label(step: Mapping[str, Any], held: Mapping[str, tuple[int, int]]) -> str:
    marks = [word for word in ("loop", "join", "admit") if word in step]
    tokens, runs = held.get(step["step"], (0, 0))
    marks += [f"tokens: {tokens}"] * (tokens > 0) + [f"runs: {runs}"] * (runs > 0)
    return str(step["step"]) + (f" ({', '.join(marks)})" if marks else "")


def _mermaid(document: Mapping[str, Any], held: Mapping[str, tuple[int, int]]) -> str:
    lines = ["flowchart TD"]
    for i, step in enumerate(document["steps"]):
        lines.append(f'  s{i}["{_label(step, held)}"]')
    for start, end, guard, wide in _arcs(document):
        arrow = "==>" if wide else "-->"
        text = " ".join(guard.split()).replace('"', "#quot;").replace("|", "#124;")
        lines.append(f"  s{start} {arrow}" + (f'|"{text}"| s{end}' if text else f" s{end}"))
    return "\n".join(lines) + "\n"


def _dot(document: Mapping[str, Any], held: Mapping[str, tuple[int, int]]) -> str:
    lines = ["digraph net {"]
    for i, step in enumerate(document["steps"]):
        lines.append(f"  s{i} [label={_quoted(_label(step, held))}];")
    for start, end, guard, wide in _arcs(document):
        style = ", style=bold" if wide else ""
        lines.append(f"  s{start} -> s{end} [label={_quoted(guard)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(document: Mapping[str, Any], held: Mapping[str, tuple[int, int]]) -> str:
    steps = [
        {"step": step["step"], "tokens": held.get(step["step"], (0, 0))[0],
         "runs": held.get(step["step"], (0, 0))[1]}
        for step in document["steps"]
    ]  # fmt: skip
    arcs = [
        {"from": start, "to": end, "when": guard or None, "inclusive": wide}
        for start, end, guard, wide in _arcs(document)
    ]
    return json.dumps({"steps": steps, "arcs": arcs}, indent=1) + "\n"


# ---- PNML: a place per step, a transition per choice of arcs -----------------------------------


def _pnml(document: Mapping[str, Any], held: Mapping[str, tuple[int, int]]) -> str:
    places, moves, arcs = [], [], []
    order = {step["step"]: i for i, step in enumerate(document["steps"])}
    for i, step in enumerate(document["steps"]):
        places.append(_place(i, step["step"], sum(held.get(step["step"], (0, 0)))))
        for n, ends in enumerate(_choices(step)):
            move = f"t{i}_{n}"
            moves.append(f"   <transition id={quoteattr(move)}/>")
            pairs = [(f"p{i}", move), *((move, f"p{order[end]}") for end in ends if end in order)]
            arcs += [
                f'   <arc id="{move}_{k}" source="{a}" target="{b}"/>'
                for k, (a, b) in enumerate(pairs)
            ]
    net = '<net id="net" type="http://www.pnml.org/version-2009/grammar/ptnet">'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<pnml xmlns="{_NAMESPACE}">\n {net}'
    body = "\n".join([*places, *moves, *arcs])
    return f'{head}\n  <page id="page">\n{body}\n  </page>\n </net>\n</pnml>\n'


_NAMESPACE: Final = "http://www.pnml.org/version-2009/grammar/pnml"


def _place(i: int, name: str, tokens: int) -> str:
    marked = f"<initialMarking><text>{tokens}</text></initialMarking>" if tokens else ""
    return f'   <place id="p{i}"><name><text>{escape(name)}</text></name>{marked}</place>'


def _choices(step: Mapping[str, Any]) -> Iterator[list[str]]:
    """The steps that get a token together, for each choice that the guards leave."""
    router = step.get("next", {"arcs": [], "mode": "exclusive"})
    arcs = router["arcs"]
    if router["mode"] == "inclusive":
        free = [i for i, arc in enumerate(arcs) if arc.get("when", True) is not True][:_FREE_MAX]
        for picked in product((True, False), repeat=len(free)):
            out = {i for i, yes in zip(free, picked, strict=True) if not yes}
            yield [arc["step"] for i, arc in enumerate(arcs) if i not in out]
        return
    for arc in arcs:
        yield [arc["step"]]
        if arc.get("when", True) is True:
            return
    yield []
