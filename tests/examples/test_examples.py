"""Every example runs offline, is short, and its own tests are green (AU-25, AU-29).

The bound on crashes is ten times the design's, for a slow machine and tracers; the bound itself:
`TALLY_SLOWNESS=1 pytest -s -n0 tests/examples/test_examples.py -k crash_anywhere` prints each.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from types import ModuleType

import pytest

from tallystick.cli.sources import bundle_at

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/app.py"))
CRASHED = "test_a_crash_anywhere"
CRASH_S_MAX = 10.0  # of the processor, for all crashes of one example
SLOWNESS = float(os.environ.get("TALLY_SLOWNESS", "10"))


def module_at(path: Path, name: str) -> ModuleType:
    """A module from a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cases() -> Iterator[object]:
    """Every test function of every example, with its parameters."""
    for folder in FOLDERS:
        known = sys.modules.pop("app", None)
        module_at(folder / "app.py", "app")
        tests = module_at(folder / "test_app.py", f"example_{folder.name.replace('-', '_')}")
        sys.modules.pop("app")
        if known is not None:
            sys.modules["app"] = known
        for name, test in inspect.getmembers(tests, inspect.isfunction):
            if name.startswith("test_"):
                for number, given in enumerate(rows(test)):
                    mark = f"{folder.name}-{name}-{number}"
                    yield pytest.param(test, given, id=mark)


def rows(test) -> list[dict[str, object]]:
    """The rows of a `parametrize`, or one without arguments."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args
            listed = [names] if isinstance(names, str) else list(names)
            return [
                dict(zip(listed, row if len(listed) > 1 else [row], strict=True)) for row in values
            ]
    return [{}]


@pytest.mark.clause("K-46", "X-25")
@pytest.mark.parametrize(("test", "given"), list(cases()))
def test_an_example_does_what_it_says(test, given: dict[str, object]) -> None:
    """AU-25, AU-29: the example's own test, which ends with a replay; crashes within their time."""
    begun = process_time()
    test(**given)
    if test.__name__ == CRASHED:
        took = process_time() - begun
        print(f"{test.__module__}: {took:.2f} s of the processor")
        assert took <= CRASH_S_MAX * SLOWNESS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_is_short_and_loads(folder: Path) -> None:
    """AU-29: at most 120 lines, a README, and a bundle that the lane and the checker accept."""
    lines = (folder / "app.py").read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert (folder / "README.md").read_text("utf-8").startswith(f"# {folder.name[:2]} ")
    assert bundle_at(folder / "app.py").manifest["workflows"]


def test_there_are_examples() -> None:
    """AU-29 control: the tests above ran over something, and every example replays its worlds."""
    assert [folder.name[:2] for folder in FOLDERS][:16] == [f"{n:02}" for n in range(16)]
    for folder in FOLDERS:
        text = (folder / "test_app.py").read_text("utf-8")
        assert "assert_replays()" in text or "crash_everywhere(" in text, folder.name


@pytest.mark.clause("K-48", "K-26")
def test_the_examples_that_must_survive_are_crashed() -> None:
    """AU-25: 02, 04, 06, 07 and 08 are killed at every place that their scenario passes."""
    crashed = {
        folder.name[:2]
        for folder in FOLDERS
        if f"def {CRASHED}(" in (text := (folder / "test_app.py").read_text("utf-8"))
        and "crash_everywhere(" in text
    }
    assert crashed >= {"02", "04", "06", "07", "08"}
