"""A node in a process of its own, for tests that kill it: `python -m tests.api.serve_me FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.api.rig import serving


async def main(folder: Path) -> None:
    """Serve until the process is killed."""
    async with serving(folder):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
