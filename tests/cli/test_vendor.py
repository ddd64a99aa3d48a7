"""`bundle build --vendor`: a pure package goes along, by hash and under the checks of the lane."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.cli.runs import hello, tally

PACKAGE = {
    "codes/__init__.py": "from .table import NAMES, name_of\n",
    "codes/table.py": "NAMES = (('x', 'unknown'), ('de', 'Germany'))\n\n\n"
    "def name_of(code: str) -> str:\n"
    "    return next((name for key, name in NAMES if key == code), 'none')\n",
}


def package(folder: Path, files: dict[str, str] | None = None) -> Path:
    """An installed package with the metadata that an installer leaves."""
    for name, text in (files or PACKAGE).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = folder / "country_codes-2.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: country-codes\nVersion: 2.1\n")
    (info / "RECORD").write_text("codes/__init__.py,,\ncodes/table.py,,\n")
    return folder / "codes"


def app(folder: Path) -> Path:
    """The greeter, which counts by a vendored function."""
    path = hello(folder) / "app.py"
    text = path.read_text().replace("visits=guest.visits + 1", "visits=len(name_of('de'))")
    path.write_text(
        text.replace(
            "from tallystick import", "from codes import name_of\nfrom tallystick import", 1
        )
    )
    return path


@pytest.mark.clause("K-03")
def test_a_vendored_package_runs_from_the_bundle(tmp_path: Path) -> None:
    """02 section 3, 05 section 3: built, listed under `requires`, and run without the package."""
    place, source = package(tmp_path / "site"), app(tmp_path / "app")
    out = tmp_path / "app.tally.zip"
    words = ("bundle", "build", str(source), "-o", str(out), "--json")
    alone = tally(*words)
    assert (alone.code, alone.problem["code"]) == (2, "lane.refused"), "control: it is not there"
    made = tally(*words, "--vendor", str(place))
    assert made.code == 0, made.err
    again = tally(*words, "--vendor", str(place))
    assert again.value["bundle"] == made.value["bundle"], "equal sources, equal bytes"
    wheel = tmp_path / "country_codes-2.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as held:
        for name, text in PACKAGE.items():
            held.writestr(name, text)
        held.writestr("country_codes-2.1.dist-info/METADATA", "Name: country-codes\n")
    assert tally(*words, "--vendor", str(wheel)).value["bundle"] == made.value["bundle"]
    data = ("--data", str(tmp_path / "app" / ".tally"), "--json")
    assert tally("world", "create", "main", "--bundle", str(out), *data).code == 0
    assert tally("run", "demo/greeter@1", '{"name": "Ada"}', *data).code == 0
    cell = tally("cell", "show", "demo/greeter@1", "Ada", *data)
    assert cell.value["state"] == {"visits": len("Germany")}
    assert tally("replay", "--verify", *data).value["ok"] is True


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            {"codes/table.py": "import os\n\n\ndef name_of(code):\n    return os.name\n"},
            "lane.refused",
        ),
        (
            {"codes/table.py": "NAMES = []\n\n\ndef name_of(code):\n    return ''\n"},
            "lane.mutable_global",
        ),
        ({"codes/fast.so": "native"}, "bundle.not_pure"),
    ],
)
def test_what_is_not_pure_is_refused(tmp_path: Path, change: dict[str, str], code: str) -> None:
    """05 section 3: the checks of the lane hold for what was vendored, too."""
    place, source = package(tmp_path / "site", {**PACKAGE, **change}), app(tmp_path / "app")
    done = tally("bundle", "build", str(source), "--vendor", str(place), "--json")
    assert (done.code, done.problem["code"]) == (2, code)


def test_what_would_hide_a_module_is_refused(tmp_path: Path) -> None:
    """05 section 3: a package named like a module of the lane, or one that is not there."""
    source = app(tmp_path / "app")
    package(tmp_path / "site", {"typing/__init__.py": "X = 1\n"})
    words = ("bundle", "build", str(source), "--json", "--vendor")
    hides = tally(*words, str(tmp_path / "site" / "typing"))
    assert (hides.code, hides.problem["code"]) == (2, "lane.vendored")
    assert tally(*words, str(tmp_path / "none")).problem["code"] == "bundle.not_found"
