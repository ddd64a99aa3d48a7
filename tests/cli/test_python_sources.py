"""Wherever a bundle is expected, a Python file or a folder of them is built (K-03)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.cli.sources import bundle_at
from tallystick.errors import BadDefinition
from tests.workflow.apps import HELLO

SHAPES = "from tallystick import Record\nclass Greet(Record):\n    name: str\n"
SPLIT = HELLO.replace("class Greet(Record):\n    name: str\n", "from .shapes import Greet\n")


@pytest.mark.clause("K-03")
def test_a_file_and_a_folder_are_bundles(tmp_path: Path) -> None:
    """AU-01: one file, or a folder with relative imports; tests and caches are left out."""
    (tmp_path / "one.py").write_text(HELLO)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "shapes.py").write_text(SHAPES)
    (tmp_path / "app" / "main.py").write_text(SPLIT)
    (tmp_path / "app" / "test_main.py").write_text("import os\n")
    one, many = bundle_at(tmp_path / "one.py"), bundle_at(tmp_path / "app")
    names = [[row["name"] for row in made.manifest["workflows"]] for made in (one, many)]
    assert names == [["demo/greeter@1"]] * 2
    assert "authority" not in bundle_at(tmp_path / "one.py", authority=None).manifest


def test_sources_without_a_bundle_are_refused(tmp_path: Path) -> None:
    """AU-01: a file that defines no `Bundle` is refused, one that leaves the lane too."""
    for text, code in (("X = 1\n", "lane.no_bundle"), ("import os\n", "lane.refused")):
        (tmp_path / "one.py").write_text(text)
        with pytest.raises(BadDefinition) as caught:
            bundle_at(tmp_path / "one.py")
        assert caught.value.code == code
        assert caught.value.hint
