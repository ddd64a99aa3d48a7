"""The pytest plugin as users get it: found by itself, once, and strict at every teardown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.apps import HELLO

TESTS = """
from app import Greet, app, greeter
from tallystick.testing import TestWorld

def test_hello(world):
    world.send(Greet(name="Ada"))
    assert world.cell(greeter, "Ada").state.visits == 1

def test_golden(world, golden):
    golden(world.send(Greet(name="Ada")), "hello")

def test_names(world):
    for name in {names}:
        world.send(Greet(name=name))
"""
BROKEN = """
from app import Greet, app
from tallystick.testing import TestWorld

def test_made_by_hand():
    world = TestWorld(app)
    world.send(Greet(name="Ada"))
    world.driver.world.logical_ns += 1  # the defect: what is live is not what the journal says
"""


@pytest.fixture
def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder in which the package is installed as a wheel says, entry point included."""
    info = pytester.path / "site" / "tallystick_here-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tallystick-here\nVersion: 1.0\n")
    name = "tallystick.testing.plugin"
    (info / "entry_points.txt").write_text(f"[pytest11]\n{name} = {name}\n")
    source = Path(__file__).parent.parent.parent / "src"
    monkeypatch.setenv("PYTHONPATH", f"{source}:{info.parent}")
    pytester.makepyfile(app=HELLO)
    return pytester


# What pytest would load beside us costs seconds, and is not in question.
LEAN = [
    part
    for name in ("randomly", "xdist", "hypothesispytest", "pytest_cov")
    for part in ("-p", f"no:{name}")
]


@pytest.mark.clause("K-48")
def test_the_plugin_comes_by_itself_and_once(installed: pytest.Pytester) -> None:
    """AU-24: it is found by its entry point, naming it loads it no second time, seeds are equal."""
    installed.makepyfile(test_it=TESTS.replace("{names}", 'sorted({"a", "b", "c"})'))
    named = ("-p", "tallystick.testing.plugin", "--tally-hashseeds=2", "--tally-golden=update")
    done = installed.runpytest_subprocess(*LEAN, *named)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*3 passed*", "*3 passed*"])
    assert (installed.path / "golden" / "hello.txt").exists()


def test_a_set_that_orders_a_journal_is_found(installed: pytest.Pytester) -> None:
    """AU-24 control: events in the order of a set leave other journals under other hash seeds."""
    words = "{" + ", ".join(f'"w{n}"' for n in range(12)) + "}"
    installed.makepyfile(test_it=TESTS.replace("{names}", words))
    done = installed.runpytest_subprocess(*LEAN, "--tally-hashseeds", "2", "-k", "names")
    assert done.ret == 1
    done.stderr.fnmatch_lines(["tally: test_it.py::test_names leaves another journal*"])


def test_every_world_is_replayed_at_teardown(installed: pytest.Pytester) -> None:
    """AU-24 control: a world made by hand and left in another state fails its test."""
    lost = "def test_without_app(world):\n    pass\n"
    installed.makepyfile(test_it=BROKEN, test_lost=lost)
    done = installed.runpytest_subprocess(*LEAN)
    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(["*another world*", "*has no `app`*"])
