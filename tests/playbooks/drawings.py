"""Readers of drawings, strict and apart from what drew them.

DOT by the grammar of the language as far as a directed graph needs it; Mermaid line by line.
Whatever they do not know is an AssertionError.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?: (?P<text>"(?:[^"\\]|\\.)*") | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<number>-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)) | (?P<sign>->|[{}\[\];,=]) )""",
    re.VERBOSE | re.DOTALL,
)
_NODE = re.compile(r'  (s[0-9]+)\["([^"\n]*)"\]')
_EDGE = re.compile(r'  (s[0-9]+) (-->|==>)(?:\|"([^"|\n]*)"\|)? (s[0-9]+)')
_KEYWORDS = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict"))


class Graph(NamedTuple):
    """Labels of nodes by their names, and edges: from, to, label, bold."""

    nodes: dict[str, str]
    edges: list[tuple[str, str, str, bool]]


class _Dot:
    """The tokens of a DOT text, taken one by one."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            assert found is not None, f"no token of DOT at {text[at : at + 40]!r}"
            self.tokens.append(found.group().strip())
            at = found.end()
        self.tokens.reverse()

    def take(self, *wanted: str) -> str:
        token = self.tokens.pop()
        assert not wanted or token in wanted, f"{token!r} where {wanted} belongs"
        return token

    def name(self) -> str:
        """An ID: a word that is no keyword, a number, or a quoted text without its quotes."""
        token = self.take()
        assert token not in ("->", *"{}[];,="), f"{token!r} is no ID"
        assert token.lower() not in _KEYWORDS, f"{token!r} is a keyword"
        if token.startswith('"'):
            return re.sub(r'\\([\\"])', r"\1", token[1:-1])
        return token

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self.take("[")
        while self.tokens[-1] != "]":
            key = self.name()
            self.take("=")
            found[key] = self.name()
            if self.tokens[-1] in (",", ";"):
                self.take()
        self.take("]")
        return found


def read_dot(text: str) -> Graph:
    """A directed graph in DOT."""
    dot = _Dot(text)
    graph = Graph({}, [])
    dot.take("digraph")
    dot.name()
    dot.take("{")
    while dot.tokens[-1] != "}":
        start = dot.name()
        end = None
        if dot.tokens[-1] == "->":
            dot.take()
            end = dot.name()
        told = dot.attributes() if dot.tokens[-1] == "[" else {}
        dot.take(";")
        if end is None:
            graph.nodes[start] = told["label"]
        else:
            graph.edges.append((start, end, told["label"], told.get("style") == "bold"))
    dot.take("}")
    assert not dot.tokens, "text behind the graph"
    return graph


def read_mermaid(text: str) -> Graph:
    """A flowchart in Mermaid."""
    head, *lines = text.splitlines()
    assert head == "flowchart TD"
    graph = Graph({}, [])
    for line in lines:
        node, edge = _NODE.fullmatch(line), _EDGE.fullmatch(line)
        assert node or edge, f"no line of Mermaid: {line!r}"
        if node:
            graph.nodes[node[1]] = _unquoted(node[2])
        elif edge:
            graph.edges.append((edge[1], edge[4], _unquoted(edge[3] or ""), edge[2] == "==>"))
    return graph


def _unquoted(text: str) -> str:
    return text.replace("#quot;", '"').replace("#124;", "|")
