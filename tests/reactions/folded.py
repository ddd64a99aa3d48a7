"""A real disk that takes names which differ by case for one: exFAT in a file, mounted for a test.

It takes root, a loop device, and the Debian packages exfatprogs and exfat-fuse.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BYTES = 16 << 20


def _done(*words: str | Path) -> str | None:
    """What a command printed; None when it is not there or refuses."""
    if shutil.which(str(words[0])) is None:
        return None
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def folding_disk(folder: Path) -> Iterator[Path]:
    """The place where it is mounted; skips where it cannot be."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(BYTES)
    if _done("mkfs.exfat", image) is None:
        pytest.skip("no folding disk: mkfs.exfat (package exfatprogs) is not there")
    device = _done("losetup", "--find", "--show", image)
    if device is None:
        pytest.skip("no folding disk: a loop device needs root")
    try:
        # Without masks every file is a program there, and programs are not written over.
        plain = "fmask=0133,dmask=0022"
        if _done("mount.exfat-fuse", "-o", plain, device, place) is None:
            pytest.skip("no folding disk: mount.exfat-fuse (package exfat-fuse) refuses")
        try:
            yield place
        finally:
            _done("umount", place)
    finally:
        _done("losetup", "--detach", device)
