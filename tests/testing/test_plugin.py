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
    # Files of a distribution with a plugin are watched by pytest: ours must not mind.
    (info / "RECORD").write_text("tallystick/__init__.py,,\ntallystick/testing/plugin.py,,\n")
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
@pytest.mark.kit("tally_hashseeds")
@pytest.mark.kit("tally_hashseeds", finds=True)
def test_the_plugin_comes_by_itself_and_once(installed: pytest.Pytester) -> None:
    """AU-24: found by its entry point, and no second time when it is named as well.

    Under other hash seeds the journals of good tests are equal; control: one that sends in the
    order of a set is named, and it alone.
    """
    words = "{" + ", ".join(f'"w{n}"' for n in range(12)) + "}"
    installed.makepyfile(test_it=TESTS.replace("{names}", words))
    named = ("-p", "tallystick.testing.plugin", "--tally-hashseeds=2", "--tally-golden=update")
    done = installed.runpytest_subprocess(*LEAN, "-W", "error", *named)
    done.stdout.fnmatch_lines(["*3 passed*", "*3 passed*"])
    assert (installed.path / "golden" / "hello.txt").exists()
    assert done.ret == 1
    told = [line for line in done.errlines if line.startswith("tally: ")]
    assert [line.split()[1] for line in told] == ["test_it.py::test_names"]


@pytest.mark.kit("assert_replays", finds=True)
def test_every_world_is_replayed_at_teardown(installed: pytest.Pytester) -> None:
    """AU-24 control: a world made by hand and left in another state fails its test."""
    lost = "def test_without_app(world):\n    pass\n"
    installed.makepyfile(test_it=BROKEN, test_lost=lost)
    done = installed.runpytest_subprocess(*LEAN)
    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(["*another world*", "*has no `app`*"])
