"""The room `values`: what it may import and call, read from its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.kernel.inputs import Submit
from tests.rig import Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents

ROOM = Path(tallystick.__file__).parent / "values"
STANDARD = frozenset(
    [
        "__future__",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "types",
        "typing",
        "uuid",
        "typing_extensions",
    ]
)
EXTRA = {"nacl": {"seal"}, "jinja2": {"expr"}, "yaml": {"yaml12"}}
FORBIDDEN_CALLS = frozenset({"eval", "exec", "compile", "__import__", "open", "input"})


def faults(source: str, part: str) -> Iterator[str]:
    """Imports and calls that the room does not allow itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            modules = []
        for module in modules:
            top = module.split(".", maxsplit=1)[0]
            ours = module.startswith(("tallystick.values", "tallystick.errors"))
            allowed = ours or top in STANDARD or part in EXTRA.get(top, ())
            if not allowed:
                yield f"imports {module}"
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in FORBIDDEN_CALLS:
            yield f"calls {called.id}"


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda p: p.name)
def test_the_room_keeps_to_its_imports(path: Path) -> None:
    """VA-23: no eval, exec or pickle; errors, a few standard modules, PyNaCl, two parsers."""
    part = path.relative_to(ROOM).parts[0].removesuffix(".py")
    assert list(faults(path.read_text(encoding="utf-8"), part)) == []


@pytest.mark.parametrize(
    "planted",
    ["import pickle", "import os", "from jinja2 import Template", "eval('1')", "exec('1')"],
)
def test_a_breach_is_found(planted: str) -> None:
    """VA-23, control: each planted import or call is found."""
    assert list(faults(planted, "canon")) != []


class Looked(Mapping[str, Any]):
    """A record that counts how often each field is looked at."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.looks = dict.fromkeys(value, 0)

    def __getitem__(self, name: str) -> Any:
        self.looks[name] += 1
        return self.value[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)


@pytest.mark.clause("K-10")
def test_an_event_is_walked_once_from_ingress_to_journal() -> None:
    """VA-21: each field of an event is read once; those bytes are what is journaled."""
    rig = Rig(order_documents(), FUNCTIONS)
    value = Looked(created("o-1"))
    rig.do(Submit(rig.clock.sample(), CREATED, value, lens="native"))
    rig.run()
    assert value.looks == dict.fromkeys(value.value, 1)
    assert rig.state("com.acme/order.flow@1", "o-1")["phase"] == "charging"
