"""What is compiled may not be the base of what is not; found without a build."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "tallystick"


def compiled_files() -> set[Path]:
    """The files of the larger set that are compiled."""
    listed = runpy.run_path(str(ROOT / "scripts" / "build_fast"))["compiled_files"]
    return {PACKAGE.parent / file for file in listed(tallystick, PACKAGE, "rooms")}


def bases_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Each class of a file that has a base from another file of the package, with that file."""
    tree, names = ast.parse(path.read_text("utf-8")), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tallystick."):
            file = PACKAGE.parent.joinpath(*str(node.module).split(".")).with_suffix(".py")
            names |= {alias.asname or alias.name: file for alias in node.names}
    for node in [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in names:
                yield f"{path}: {node.name}({base.id})", names[base.id]


@pytest.mark.clause("D3")
def test_no_compiled_class_is_the_base_of_a_plain_one(tmp_path: Path) -> None:
    """VA-01: such a class fails when it is made, and only on the compiled path; errors may be one.

    Control: a planted class is found.
    """
    compiled = compiled_files()
    errors = {PACKAGE / "errors.py", PACKAGE / "values" / "findings.py"}

    def found(paths: set[Path]) -> list[str]:
        told = [row for path in sorted(paths) for row in bases_of(path)]
        return [name for name, file in told if file in compiled - errors]

    assert PACKAGE / "node" / "driver.py" in compiled
    plain = {path for path in PACKAGE.rglob("*.py") if "_fast" not in path.parts} - compiled
    assert found(plain) == []
    text = "from tallystick.node.driver import Publisher\n\nclass Own(Publisher): ...\n"
    (tmp_path / "planted.py").write_text(text, "utf-8")
    assert found({tmp_path / "planted.py"}) == [f"{tmp_path / 'planted.py'}: Own(Publisher)"]
