"""The pytest plugin: it comes with the package, there is nothing to load (K-48).

The fixture `world` is a `TestWorld` of the module's `app`; `golden` compares its journal with the
one that is kept.
Whatever worlds a test makes, their journals are replayed when it is over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tallystick.testing.world import TestWorld

DIGESTS: Final = "TALLY_DIGESTS"
_PLACES: Final = (("UTC", "C"), ("Asia/Kathmandu", "C.UTF-8"), ("America/St_Johns", "POSIX"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Seeds of worlds, golden journals, and runs under other hash seeds."""
    group = parser.getgroup("tally", "worlds of tallystick")
    group.addoption("--tally-seed", type=int, default=0, help="seed of the worlds")
    group.addoption(
        "--tally-golden", choices=("check", "update"), default="check", help="golden journals"
    )
    group.addoption(
        "--tally-hashseeds",
        type=int,
        default=0,
        metavar="N",
        help="run everything N times under other hash seeds, TZ and LANG; journals must be equal",
    )


@pytest.fixture
def world(request: pytest.FixtureRequest) -> TestWorld:
    """A world of the `app` that the test module imports."""
    from tallystick.testing.world import TestWorld  # noqa: PLC0415  # pytest starts without it

    app: Any = getattr(request.module, "app", None)
    if app is None:
        pytest.fail(f"{request.module.__name__} has no `app` to make a world of")
    seed: Any = request.config.getoption("--tally-seed")
    return TestWorld(app, seed=seed)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[TestWorld, str], None]:
    """Compare a world with the journal kept as `golden/NAME` beside the test file."""
    from tallystick.testing.golden import golden as compare  # noqa: PLC0415  # as above

    folder = request.path.parent / "golden"
    update: bool = request.config.getoption("--tally-golden") == "update"

    def check(world: TestWorld, name: str) -> None:
        compare(world, name, folder, update=update)

    return check


@pytest.fixture(autouse=True)
def tally_replays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Replay every world that a test has made, unless it has replayed it itself."""
    loaded = sys.modules.get("tallystick.testing.world")
    if loaded is None and "world" in request.fixturenames:
        from tallystick.testing import world as loaded  # noqa: PLC0415  # as above
    if loaded is None:
        yield
        return
    made: list[TestWorld] = []
    token = loaded.MADE.set(made)
    yield
    loaded.MADE.reset(token)
    for each in made:
        if each.replayed_seq != each.driver.world.seq:
            each.assert_replays()
    _note(request.node.nodeid, made)


def _note(name: str, made: list[TestWorld]) -> None:
    """Tell the process that compares runs what these worlds have come to."""
    path = os.environ.get(DIGESTS)
    if path and made:
        roots = [each.root().hex() for each in made]
        with Path(path).open("a", encoding="utf-8") as out:
            out.write(json.dumps([name, roots]) + "\n")


# ---- other hash seeds -----------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run everything under other hash seeds, zones and languages, and compare the journals."""
    count: Any = config.getoption("--tally-hashseeds")
    if not count:
        return None
    given = _without(list(config.invocation_params.args))
    found: list[dict[str, list[str]]] = []
    with tempfile.TemporaryDirectory(prefix="tally-seeds-") as folder:
        for number in range(count):
            note = Path(folder) / str(number)
            code = _run(given, number, note)
            if code != 0:
                return code
            found.append(_noted(note))
    differ = sorted(
        name for name in found[0] if any(other.get(name) != found[0][name] for other in found)
    )
    for name in differ:
        sys.stderr.write(f"tally: {name} leaves another journal under another hash seed\n")
    if not found[0]:
        sys.stderr.write("tally: no test made a world\n")
    return 1 if differ or not found[0] else 0


def _without(args: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for arg in args:
        if skip:
            skip = False
        elif arg == "--tally-hashseeds":
            skip = True
        elif not arg.startswith("--tally-hashseeds="):
            kept.append(arg)
    return kept


def _run(args: list[str], number: int, note: Path) -> int:
    zone, language = _PLACES[number % len(_PLACES)]
    env = {**os.environ, "PYTHONHASHSEED": str(number + 1), "TZ": zone, "LANG": language}
    env = {**env, "LC_ALL": language, DIGESTS: str(note)}
    done = subprocess.run(  # noqa: S603 - the interpreter that runs us, with our own arguments
        [sys.executable, "-m", "pytest", *args], env=env, check=False
    )
    return done.returncode


def _noted(note: Path) -> dict[str, list[str]]:
    if not note.exists():
        return {}
    rows = [json.loads(line) for line in note.read_text("utf-8").splitlines()]
    return dict(rows)
