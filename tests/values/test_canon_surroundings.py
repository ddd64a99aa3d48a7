"""Canonical bytes do not depend on where they are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).with_name("print_digest.py")
GOLDEN = ROOT / "tests" / "golden" / "values"


def digest_of(python: str, **surroundings: str) -> str:
    """What the program prints in these surroundings."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TALLY_PURE": "1",
        **surroundings,
    }
    command = [python, str(PROGRAM), str(GOLDEN)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def python_of(version: str) -> str | None:
    """An interpreter of that version: on the path, or kept by pyenv."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
        if candidate is None:
            continue
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return candidate
    return None


@pytest.fixture(scope="module")
def plain() -> str:
    """The digest in this interpreter's own surroundings."""
    return digest_of(sys.executable)


@pytest.mark.clause("X-02")
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
@pytest.mark.parametrize(("locale", "zone"), [("C", "UTC"), ("C.UTF-8", "Asia/Kolkata")])
def test_seed_locale_zone(plain: str, seed: str, locale: str, zone: str) -> None:
    """VA-20: hash seed, locale and time zone do not change a byte or a refusal."""
    assert plain == digest_of(sys.executable, PYTHONHASHSEED=seed, LC_ALL=locale, TZ=zone)


@pytest.mark.clause("X-02")
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_python_version(plain: str, version: str) -> None:
    """VA-20: every supported CPython gives the same bytes and refusals."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"VA-20 NOT SHOWN for CPython {version}: no such interpreter here")
    assert plain == digest_of(python)
