"""Make a golden data folder: `python -m tests.golden.folders.build NAME`, once for a format.

A node served it, was stopped, and its roots were written down; later releases must open it to them.
The key of that node is in it, and is worth nothing anywhere else.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

HERE = Path(__file__).parent
KEPT = ("tally.db", "checkpoints.jsonl", "keys", "blobs")


def lived(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """A folder as one file, and the roots of its worlds."""
    (folder / "sink").mkdir()
    sink = start_sink(folder / "sink")
    with Place(folder / "node") as place:
        try:
            place.start()
            for number in range(12):
                assert place.send(f"o{number}", number, sink.url)[0] == 202
            assert place.settled()
            place.ask("POST", "/v1/worlds/main/snapshots", {})
            seq = place.root()["seq"] // 2
            body = {"at": seq, "name": "side", "pending": "cancel"}
            status, said = place.ask("POST", "/v1/worlds/main/forks", body)
            assert status == 201, said
            place.stop()
            place.start()
            assert place.send("later", 2, sink.url)[0] == 202
            place.stop()
            roots = {name: root_of(place, name) for name in ("main", "side")}
            return packed(place.data), roots
        finally:
            sink.close()


def root_of(place: Place, world: str) -> dict[str, Any]:
    """Where a world stands, by the command, without a node."""
    done = place.tally("--json", "--world", world, "world", "root")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {name: found[name] for name in ("seq", "root", "state_root", "manifest")}


def packed(data: Path) -> bytes:
    """What of a data folder has to be kept."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name in KEPT:
            path = data / name
            for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if each.is_file():
                    file.write(each, str(each.relative_to(data)))
    return held.getvalue()


def unpack(name: str, data: Path) -> dict[str, Any]:
    """Lay a golden folder down; the roots that it must open to."""
    data.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(HERE / f"{name}.zip") as file:
        file.extractall(data)
    (data / "keys").chmod(0o700)
    for path in (data / "keys").iterdir():
        path.chmod(0o600)
    roots: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    return roots


def names() -> list[str]:
    """Every golden folder."""
    return sorted(path.stem for path in HERE.glob("*.zip"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        body, found = lived(Path(made))
    (HERE / f"{sys.argv[1]}.zip").write_bytes(body)
    (HERE / f"{sys.argv[1]}.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
