"""The rule that every file is used: imported by another, or started by name.

A test is started by pytest, a package by its members, an entry point by `[project.scripts]` or by
a script that names it; anything else that nobody imports is dead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tests.tidy import Source


def module_name(path: str) -> str:
    """The dotted name under which a file is imported."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] == "src":
        del parts[0]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(source: Source) -> Iterator[str]:
    """Every dotted name that a file imports, or imports a name from."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _starts_by_itself(source: Source) -> bool:
    path, name = source.path, PurePosixPath(source.path).name
    if name in {"__init__.py", "__main__.py", "conftest.py"} or name.startswith("test_"):
        return True
    # Programs and the lines that must be type errors are run, not imported.
    if path.startswith(("scripts/", "bench/", "examples/", "tests/typing/")):
        return True
    return path.startswith("tests/") and 'if __name__ == "__main__"' in source.text


def unused(sources: Iterable[Source], programs: Mapping[str, str]) -> list[str]:
    """Paths that nobody imports and nobody starts; `programs` are texts that start files."""
    sources = list(sources)
    imported = {name for s in sources for name in imported_by(s) if name != module_name(s.path)}
    found = []
    for source in sources:
        name = module_name(source.path)
        if _starts_by_itself(source) or name in imported:
            continue
        file = PurePosixPath(source.path).name
        texts = [*programs.values(), *(s.text for s in sources if s is not source)]
        started = re.compile(
            rf"(?<![\w.]){re.escape(name)}(?![\w.])|(?<!\w){re.escape(file)}(?!\w)"
        )
        # Prose names files too, so a mention counts for programs and tests only.
        if source.shipped:
            texts = list(programs.values())
        if not any(started.search(text) for text in texts):
            found.append(source.path)
    return found
