"""The build of a wheel: pure, or with a compiled build in it when TALLY_FAST_WHEEL=1 asks for one.

Both hold the same sources; a compiled build is found by their hash, so it cannot be a stale one.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledWheel(BuildHookInterface[Any]):
    """Puts the compiled build of the very sources into the wheel, and names what it runs on."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuses when a compiled wheel is asked for and these sources were not compiled."""
        if version == "editable" or os.environ.get("TALLY_FAST_WHEEL") != "1":
            return
        build = compiled(Path(self.root) / "src" / "tallystick")
        if build is None:
            raise SystemExit("no compiled build of these sources: run `make fast` first")
        build_data["force_include"][str(build)] = f"tallystick/_fast/{build.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def compiled(here: Path) -> Path | None:
    """The build that a process of these sources would load."""
    own = loaded(here)
    for name in own._SETS:  # noqa: SLF001 - the package's own file says where its builds are
        build: Path = here / "_fast" / own._build_name(here, name)  # noqa: SLF001
        if own._libraries(build):  # noqa: SLF001
            return build
    return None


def loaded(here: Path) -> ModuleType:
    """The package's own file, run by itself on the pure path."""
    before = os.environ.get("TALLY_PURE")
    os.environ["TALLY_PURE"] = "1"
    try:
        spec = importlib.util.spec_from_file_location("tallystick", here / "__init__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        if before is None:
            del os.environ["TALLY_PURE"]
        else:
            os.environ["TALLY_PURE"] = before
