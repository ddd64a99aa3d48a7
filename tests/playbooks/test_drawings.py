"""Drawings of nets: each form is read back by a strict reader of its own, and says the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tallystick.playbooks.document import load
from tallystick.playbooks.draw import drawn
from tallystick.values import canon
from tests.playbooks.drawings import Graph, read_dot, read_mermaid
from tests.playbooks.test_net import HEAD, NOOP, book

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "20-playbooks").glob("*.yaml"))
HARD = (
    HEAD
    + r"""workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: "node.a-b", when: "{{ ctx.a == 'x\"y' and ctx['p|q'] != '\\\\' }}"}
        - step: graph
          when: |
            {{ ctx.a
               > 1 }}
        - {step: digraph}
  - {step: "node.a-b", tool: {kind: noop}, next: {arcs: [{step: graph}]}}
  - {step: graph, join: all, tool: {kind: noop}}
  - {step: digraph, tool: {kind: noop}}
"""
)


def document_of(text: str) -> Any:
    return canon.decode(load(text, unchecked=True).bytes)


def as_json(text: str) -> Graph:
    """The net as its JSON form says it: the one that programs read anyway."""
    told = json.loads(text)
    nodes = {f"s{i}": row["step"] for i, row in enumerate(told["steps"])}
    edges = []
    for arc in told["arcs"]:
        guard = " ".join((arc["when"] or "").split())
        edges.append((f"s{arc['from']}", f"s{arc['to']}", guard, arc["inclusive"]))
    return Graph(nodes, edges)


def flat(graph: Graph) -> Graph:
    """Without marks of steps, and guards in one line."""
    nodes = {name: label.partition(" (")[0] for name, label in graph.nodes.items()}
    return Graph(nodes, [(a, b, " ".join(text.split()), wide) for a, b, text, wide in graph.edges])


assert EXAMPLES, "the examples are where they were"
TEXTS = {path.stem: path.read_text("utf-8") for path in EXAMPLES} | {"hard": HARD}


@pytest.mark.clause("N-01", "X-23")
@pytest.mark.parametrize("name", TEXTS)
def test_every_form_is_valid_and_says_the_same(name: str) -> None:
    """PB-18: DOT and Mermaid by a strict reader, PNML as XML whose arcs have their ends."""
    document = document_of(TEXTS[name])
    wanted = as_json(drawn(document, "json"))
    assert flat(read_dot(drawn(document, "dot"))) == wanted
    assert flat(read_mermaid(drawn(document, "mermaid"))) == wanted
    tree = ET.fromstring(drawn(document, "pnml"))
    by_tag: dict[str, list[ET.Element]] = {}
    for each in tree.iter():
        by_tag.setdefault(each.tag.rpartition("}")[2], []).append(each)
    places = {each.attrib["id"] for each in by_tag["place"]}
    moves = {each.attrib["id"] for each in by_tag["transition"]}
    assert len(places) == len(wanted.nodes)
    assert places.isdisjoint(moves)
    for arc in by_tag["arc"]:
        ends = {arc.attrib["source"], arc.attrib["target"]}
        assert len(ends & places) == len(ends & moves) == 1, "an arc joins a place and a move"


@pytest.mark.clause("X-23")
def test_tokens_are_drawn_in_every_form() -> None:
    """PB-18: an execution is drawn with its tokens and runs where they stand."""
    document = document_of(
        book(f"step: a, {NOOP}, next: {{arcs: [{{step: b}}]}}", f"step: b, {NOOP}")
    )
    marking = {"tokens": {"t1": ("b", "g0"), "t2": ("b", "g0")}, "runs": {"r1": "a"}}
    wanted = {"s0": "a (runs: 1)", "s1": "b (tokens: 2)"}
    assert read_dot(drawn(document, "dot", marking)).nodes == wanted
    assert read_mermaid(drawn(document, "mermaid", marking)).nodes == wanted
    tree = ET.fromstring(drawn(document, "pnml", marking))
    marks = [each.findtext(".//{*}initialMarking/{*}text") for each in tree.iterfind(".//{*}place")]
    assert marks == ["1", "2"]


@pytest.mark.parametrize(
    "text",
    [
        "graph net { }",
        "digraph net { a -> ; }",
        'digraph net { a [label="x]; }',
        "digraph net { a [label=b-c]; }",
        'digraph net { a [label="x"] }',
        "digraph net { node -> a; }",
        "digraph net { } more",
    ],
)
def test_the_reader_of_dot_refuses_what_is_none(text: str) -> None:
    """PB-18 control: what Graphviz would not take, or draw as something else, is not taken."""
    with pytest.raises((AssertionError, IndexError, KeyError)):
        read_dot(text)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed here")
@pytest.mark.parametrize("name", TEXTS)
def test_graphviz_takes_it(name: str) -> None:
    """PB-18: where the program itself is installed, it reads the same nodes and edges."""
    document = document_of(TEXTS[name])
    ran = subprocess.run(
        ["dot", "-Tplain"], input=drawn(document, "dot"), text=True, capture_output=True, check=True
    )
    assert not ran.stderr
    words = [line.split()[0] for line in ran.stdout.splitlines() if line]
    wanted = as_json(drawn(document, "json"))
    assert words.count("node") == len(wanted.nodes)
    assert words.count("edge") == len(wanted.edges)
