"""Power cuts: a data folder on a file system in a loop image that is copied under load.

What the file system has not written to its device is not in the copy, so a copy is what a disk
holds after the power went: unsynced data is lost, and the file system recovers by its own log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SIZE_MB = 1024  # sparse: the load of a quick machine must not fill it


def available() -> bool:
    """True where this process may make and mount a loop image."""
    tools = all(shutil.which(tool) for tool in ("losetup", "mount", "umount", "mkfs.ext4"))
    return tools and os.geteuid() == 0 and Path("/dev/loop-control").exists()


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


@dataclass(slots=True)
class Image:
    """An ext4 file system in a file, mounted on a folder."""

    path: Path
    folder: Path
    mounted: bool = False

    def mount(self) -> None:
        """Mount it; its own commits are rare, so that what is not synced stays away for long."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-o", "loop,commit=60", str(self.path), str(self.folder))
        self.mounted = True

    def close(self) -> None:
        """Unmount it."""
        if self.mounted:
            _run("umount", str(self.folder))
            self.mounted = False

    def cut(self, path: Path, folder: Path) -> Image:
        """The disk as it is now, as if the power had gone: a copy, not yet mounted."""
        _run("cp", "--sparse=always", str(self.path), str(path))
        return Image(path, folder)


def make_image(path: Path, folder: Path, megabytes: int = SIZE_MB) -> Image:
    """A fresh file system, mounted."""
    with path.open("wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    _run("mkfs.ext4", "-q", str(path))
    made = Image(path, folder)
    made.mount()
    return made
