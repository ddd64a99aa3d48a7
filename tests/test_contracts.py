"""The rooms as a contract: who may import whom, and that a breach is found (ST-02, ST-03)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PURITY_PROGRAM = Path(__file__).parent / "purity_program.py"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of a checkout over its own sources, not over the installed package."""
    # The cache goes by time stamps, and a copy has those of its original.
    command = [sys.executable, "-c", LINT, "--no-cache", "--config", "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources and their contracts, in which a breach can be planted."""
    ignore = shutil.ignore_patterns("__pycache__", "_fast")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.clause("K-04")
def test_contracts_hold(checkout: Path) -> None:
    """ST-02: rooms import downwards only, and pure rooms reach no clock, chance, disk or wire."""
    done = lint_imports(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


PLANTED = [
    ("kernel/tick.py", "import time", "The pure rooms touch no clock"),
    ("authority/policy.py", "import jinja2", "Jinja2 is a parser"),
    ("node/__init__.py", "import jinja2.sandbox", "Jinja2 is a parser"),
    ("values/names.py", "from tallystick.model import limits", "Rooms import downwards only"),
    ("kernel/tick.py", "from tallystick import modules", "Rooms import downwards only"),
    ("kernel/tick.py", "import wasmtime", "One door to the WASM engine"),
    ("model/limits.py", "from tallystick import __version__", "The pure rooms touch no clock"),
    ("attic/__init__.py", "", "Rooms import downwards only"),
    ("reactions/watch.py", "import os", "The pure rooms touch no clock"),
    ("reactions/tree.py", "from tallystick.reactions import watch", "Only the node starts the"),
]


@pytest.mark.clause("K-04")
@pytest.mark.parametrize(("file", "line", "contract"), PLANTED)
def test_a_planted_import_breaks_its_contract(
    checkout: Path, file: str, line: str, contract: str
) -> None:
    """ST-02 control: the clock in the kernel, Jinja outside expr, upward imports, new rooms."""
    path = checkout / "src" / "tallystick" / file
    path.parent.mkdir(exist_ok=True)
    text = path.read_text("utf-8") if path.exists() else ""
    # At the end: a future import has to stay the first statement.
    path.write_text(f"{text}\n{line}\n", encoding="utf-8")
    done = lint_imports(checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [row for row in done.stdout.splitlines() if "BROKEN" in row]
    assert [row for row in broken if row.startswith(contract)]


def test_pure_rooms_are_all_under_the_contract() -> None:
    """ST-02: every pure room that exists is a source of the contract; the watcher too."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    pure = next(c for c in contracts if c["name"].startswith("The pure rooms"))
    sources = set(pure["source_modules"])
    package = ROOT / "src" / "tallystick"
    rooms = ("values", "model", "authority", "kernel", "modules", "workflow", "playbooks")
    rooms += ("reactions", "governance", "views")  # type: ignore[assignment]
    existing = [room for room in rooms if (package / room).is_dir()]
    assert existing
    assert [room for room in existing if f"tallystick.{room}" not in sources] == []


TRAP = """
import builtins, io, os, random, runpy, socket, sys, time

def trap(name):
    def sprung(*args, **kwargs):
        raise AssertionError("a pure room called " + name)
    return sprung

program = runpy.run_path(sys.argv[1])
for module, names in (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep")),
    (random, ("random", "randrange", "getrandbits", "choice", "shuffle", "Random")),
    (os, ("urandom", "getenv", "open", "stat", "listdir", "getrandom")),
    (socket, ("socket", "create_connection", "getaddrinfo")),
    (io, ("open",)),
    (builtins, ("open", "input")),
):
    for name in names:
        setattr(module, name, trap(module.__name__ + "." + name))
for line in program[sys.argv[2]]():
    sys.stdout.write(line + "\\n")
"""


def run_trapped(program: Path, function: str, hash_seed: str) -> subprocess.CompletedProcess[str]:
    """Load a program, spring the traps, run its function; its lines are the result."""
    # `python -c` starts without this folder's parent on its path.
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TRAP, str(program), function]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.clause("X-12")
def test_pure_rooms_run_among_traps() -> None:
    """ST-03: with clock, chance, disk and wire trapped, two hash seeds give equal roots."""
    runs = [run_trapped(PURITY_PROGRAM, "roots", seed) for seed in ("1", "4242")]
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert runs[0].stdout == runs[1].stdout != ""


@pytest.mark.parametrize(
    "body",
    [
        "import time; yield str(time.time_ns())",
        "import random; yield str(random.random())",
        "yield open('/dev/null').read()",
        "import socket; socket.socket(); yield ''",
        "import os; yield os.urandom(1).hex()",
    ],
)
def test_each_trap_springs(tmp_path: Path, body: str) -> None:
    """ST-03 control: a program that looks at the world is caught."""
    program = tmp_path / "program.py"
    program.write_text(f"def roots():\n    {body}\n", encoding="utf-8")
    run = run_trapped(program, "roots", "1")
    assert run.returncode == 1
    assert "a pure room called" in run.stderr


def test_two_hash_seeds_tell_set_order_apart(tmp_path: Path) -> None:
    """ST-03 control: a result that depends on the order of a set differs between the two runs."""
    program = tmp_path / "program.py"
    walk = "{str(n) for n in range(50)}"
    program.write_text(f"def roots():\n    yield from {walk}\n", encoding="utf-8")
    one, other = (run_trapped(program, "roots", seed).stdout for seed in ("1", "4242"))
    assert sorted(one.split()) == sorted(other.split())
    assert one != other
