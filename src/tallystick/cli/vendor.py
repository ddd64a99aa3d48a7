"""`--vendor PATH`: a pure package goes into the bundle, under the checks of the lane (05).

A path is a wheel, the folder of a package, or one file; what a distribution is called, and in which
version it is there, is read from the metadata that an installer leaves beside it.
Nothing is ever installed by a node: what runs is what the bundle holds, by hash.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from tallystick.errors import Rejected
from tallystick.model.bundle_python import VENDOR, is_source

_NATIVE: Final = (".so", ".pyd", ".dll", ".dylib")
_UNKNOWN: Final = "0"


def vendored(paths: Iterable[str]) -> dict[str, bytes]:
    """The files of these packages, below `vendor/<dist>-<version>/`; refuses what is not pure."""
    found: dict[str, bytes] = {}
    for given in paths:
        place = Path(given)
        if not place.exists():
            raise _refused(place, "bundle.not_found", "is not there")
        dist, version, files = _wheel(place) if place.suffix == ".whl" else _installed(place)
        native = sorted(name for name in files if name.endswith(_NATIVE))
        if native:
            raise _refused(place, "bundle.not_pure", f"holds {native[0]}")
        sources = {name: data for name, data in files.items() if name.endswith(".py")}
        if not sources:
            raise _refused(place, "bundle.not_found", "holds no Python")
        folder = f"{VENDOR}/{dist.replace('-', '_')}-{version}"
        found |= {f"{folder}/{name}": data for name, data in sources.items() if is_source(name)}
    return found


def _wheel(place: Path) -> tuple[str, str, dict[str, bytes]]:
    dist, version, *tags = [*place.stem.split("-"), ""]
    if tags[-3:-1] != ["none", "any"]:
        raise _refused(place, "bundle.not_pure", "is built for one machine")
    try:
        with zipfile.ZipFile(place) as held:
            names = [name for name in held.namelist() if ".dist-info/" not in name]
            return dist, version, {name: held.read(name) for name in names if name[-1] != "/"}
    except zipfile.BadZipFile:
        raise _refused(place, "bundle.not_found", "is no wheel that can be read") from None


def _installed(place: Path) -> tuple[str, str, dict[str, bytes]]:
    dist, version = _known(place)
    if place.is_file():
        return dist, version, {place.name: place.read_bytes()}
    base = place.parent
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    return dist, version, {path.relative_to(base).as_posix(): path.read_bytes() for path in paths}


def _known(place: Path) -> tuple[str, str]:
    """Name and version of the distribution that a package belongs to, as its installer noted."""
    for info in sorted(place.parent.glob("*.dist-info")):
        record = info / "RECORD"
        if record.exists() and f"{place.name}" in _tops(record.read_text("utf-8")):
            said = HeaderParser().parsestr((info / "METADATA").read_text("utf-8"))
            return str(said["Name"]), str(said["Version"])
    return place.stem, _UNKNOWN


def _tops(record: str) -> set[str]:
    return {line.partition(",")[0].split("/")[0] for line in record.splitlines()}


def _refused(place: Path, code: str, why: str) -> Rejected:
    return Rejected(
        f"{place} {why}",
        code=code,
        where={"path": str(place)},
        hint="give a pure wheel, or the folder of a package that is Python alone",
    )
