"""What was compiled once is not compiled again; what has changed is."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of the script."""
    pytest.importorskip("setuptools", reason="WHAT IS KEPT OF A BUILD NOT TESTED: no setuptools")
    return runpy.run_path(str(ROOT / "scripts" / "compile_fast"))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A C file as mypyc writes them: it includes a header, which includes that of another room."""
    (tmp_path / "own.c").write_text('#include "own.h"\nint f(void) { return 1; }\n')
    (tmp_path / "own.h").write_text("#include <Python.h>\n#include <other.h>\n")
    (tmp_path / "other.h").write_text("struct other { int a; };\n")
    (tmp_path / "alone.h").write_text("struct alone { int a; };\n")
    return tmp_path


@pytest.mark.clause("D3")
@pytest.mark.parametrize("changed", ["own.c", "own.h", "other.h"])
def test_what_goes_into_an_object_decides(
    script: dict[str, Any], written: Path, changed: str
) -> None:
    """VA-01: a change of the file, its header or a header of that is another object."""
    key_of = script["key_of"]
    before = key_of(written / "own.c", written, ["cc", "-O2"])
    with (written / changed).open("a") as out:
        out.write("\n")
    assert key_of(written / "own.c", written, ["cc", "-O2"]) != before


@pytest.mark.clause("D3")
def test_what_does_not_go_into_it_does_not(script: dict[str, Any], written: Path) -> None:
    """VA-01: another header changes nothing, other flags do; nor does the place matter."""
    key_of = script["key_of"]
    before = key_of(written / "own.c", written, ["cc", "-O2"])
    (written / "alone.h").write_text("struct alone { int b; };\n")
    assert key_of(written / "own.c", written, ["cc", "-O2"]) == before
    assert key_of(written / "own.c", written, ["cc", "-O3"]) != before
    moved = written.rename(written.with_name("moved"))
    assert key_of(moved / "own.c", moved, ["cc", "-O2"]) == before


def test_the_oldest_are_forgotten(script: dict[str, Any], tmp_path: Path) -> None:
    """What was used last stays, up to a bound; an object that is not kept is not there."""
    script["Objects"].tidy.__globals__["KEPT_MAX"] = 2
    objects = script["Objects"](tmp_path / "kept")
    made, into = tmp_path / "made.o", tmp_path / "deep" / "into.o"
    for at, key in enumerate("abc"):
        made.write_text(key)
        objects.keep(key, made)
        os.utime(objects.folder / f"{key}.o", (at, at))
    assert objects.take("a", into)
    assert into.read_text() == "a"
    objects.tidy()
    assert [key for key in "abc" if objects.take(key, into)] == ["a", "c"]
