"""The wheel is reproducible, and it runs where nothing else of the project is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")


def copied(into: Path) -> Path:
    source = into / "source"
    source.mkdir(parents=True)
    for part in PARTS:
        here = ROOT / part
        ignore = shutil.ignore_patterns("__pycache__", "_fast")
        if here.is_dir():
            shutil.copytree(here, source / part, ignore=ignore)
        else:
            shutil.copy(here, source / part)
    return source


def build(into: Path, epoch: str, **more: str) -> Path:
    source = copied(into) if not (into / "source").exists() else into / "source"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into / "out")]
    environment = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": epoch, "TZ": "UTC", **more}
    subprocess.run(command, check=True, cwd=source, env=environment, capture_output=True)
    return next((into / "out").glob("*.whl"))


@pytest.mark.slow
def test_two_builds_are_equal(tmp_path: Path) -> None:
    """ST-15: two builds of one tree give equal wheels; the wheel holds the sys definitions."""
    first = build(tmp_path / "a", "1700000000")
    second = build(tmp_path / "b", "1700000000")
    assert sha256(first.read_bytes()).digest() == sha256(second.read_bytes()).digest()
    names = zipfile.ZipFile(first).namelist()
    assert any(name.endswith("model/sys/effects.json") for name in names)
    assert "tallystick/py.typed" in names
    other = build(tmp_path / "c", "1800000000")
    assert first.name == other.name


@pytest.mark.slow
def test_the_wheel_runs_alone(tmp_path: Path) -> None:
    """ST-11: the demonstration runs from the wheel, without the checkout."""
    wheel = build(tmp_path / "a", "1700000000")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    # -P keeps the working directory off the path; the dependencies are those of this environment.
    script = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import tallystick; "
        "print(tallystick.__file__); sys.argv = ['tally', 'demo', '--json']; "
        "from tallystick.cli.main import main; main()"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert str(site) in done.stdout.splitlines()[0]
    assert '"equal": true' in done.stdout


@pytest.mark.slow
def test_a_compiled_wheel_holds_the_build_of_its_sources(tmp_path: Path) -> None:
    """11 section 4: one source, two wheels; control: without a build there is no compiled one."""
    source = copied(tmp_path / "a")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(tmp_path / "a", "1700000000", TALLY_FAST_WHEEL="1")
    assert b"make fast" in caught.value.stderr
    into = source / "src" / "tallystick" / "_fast"
    compile_it = [sys.executable, ROOT / "scripts" / "build_fast", "--codec-only", "--into", into]
    if subprocess.run(compile_it, check=False, capture_output=True).returncode == 3:  # type: ignore[arg-type]
        pytest.skip("there is no C compiler here")
    plain = build(tmp_path / "a", "1700000000")
    assert plain.name.endswith("-none-any.whl")
    assert not any("_fast" in name for name in zipfile.ZipFile(plain).namelist())
    plain.unlink()
    wheel = build(tmp_path / "a", "1700000000", TALLY_FAST_WHEEL="1")
    assert not wheel.name.endswith("-none-any.whl"), "it fits this machine only"
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    script = "from tallystick.values import canon; print(canon.__file__, canon.encode([1]).hex())"
    for pure, ending in (("0", ".so"), ("1", ".py")):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "TALLY_PURE": pure},
        )
        file, said = done.stdout.split()
        assert (Path(file).suffix, said) == (ending, "d9d9f78101")
        assert Path(file).is_relative_to(site)
