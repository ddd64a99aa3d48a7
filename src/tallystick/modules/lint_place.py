"""Where in the sources a refused definition stands: its file, and the nearest line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tallystick.errors import BadDefinition
from tallystick.modules.lint_tree import Function
from tallystick.modules.parse import parsed


def place_of(files: Mapping[str, bytes], why: BadDefinition) -> tuple[str, int]:
    """The file and the line that a refusal is about, as well as its `where` can tell."""
    said = why.where
    named = next((str(said[key]) for key in ("file", "path") if said.get(key) in files), None)
    for path in sorted(files) if named is None else [named]:
        if not path.endswith(".py"):
            continue
        line = said.get("line") or _line_of(parsed(files[path]), why)
        if line:
            return path, int(line)
    return named or min(files), 1


def _line_of(tree: ast.Module, why: BadDefinition) -> int | None:
    """The line of a field, an option or a name; None when nothing here is called so."""
    whole = str(why.where.get("def", "")).rpartition("/")[2].partition("@")[0]
    inner = str(why.where.get("path", "")).strip("/").partition("/")[0]
    # A schema of a workflow is named after it: `greeter.key`, `greeter.state`.
    for stem in (whole, whole.partition(".")[0]):
        for node in tree.body:
            if isinstance(node, ast.ClassDef | Function) and node.name == stem:
                return min(_parts(node, inner), default=node.lineno)
    word = str(why.where.get("name", "")).rpartition(" ")[2].rpartition(".")[2]
    stored = (n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.FunctionDef))
    lines = [n.lineno for n in stored if word in (getattr(n, "id", ""), getattr(n, "name", ""))]
    return min(lines, default=None) if word else None


def _parts(node: ast.ClassDef | Function, name: str) -> Iterator[int]:
    """The lines of the fields of a class, and of the options of its decorator, with that name."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == name:
            yield part.lineno
    for decorator in node.decorator_list:
        given = decorator.keywords if isinstance(decorator, ast.Call) else []
        yield from (each.value.lineno for each in given if each.arg == name)
