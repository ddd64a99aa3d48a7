"""PF-04: durable figures are durable; under `strace` every commit of W1 has a sync of its own.

Prints JSON; exit 1 when there were fewer syncs than commits, 2 when `strace` is not there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CALLS = ("fsync", "fdatasync")


def counted(table: str) -> dict[str, int]:
    """Calls by name of the table that `strace -c` prints."""
    found = dict.fromkeys(CALLS, 0)
    for line in table.splitlines():
        fields = line.split()
        if fields and fields[-1] in found:
            found[fields[-1]] = int(fields[3])
    return found


def measure(count: int) -> dict[str, Any]:
    """W1 under `strace`: its commits and its syncs."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "table", Path(folder) / "w1.json"
        # Only the log of the journal counts: the floor of W1 commits to a file of its own.
        log = Path(folder).resolve() / "node" / ".tally" / "tally.db-wal"
        command = ["strace", "-f", "-c", "-e", f"trace={','.join(CALLS)}", "-o", str(table)]
        command += ["-P", str(log)]
        command += [sys.executable, str(Path(__file__).with_name("tally.py"))]
        command += ["--workload", "w1", "--n", str(count), "--out", str(out)]
        command += ["--dir", str(log.parent.parent)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        calls = counted(table.read_text(encoding="utf-8"))
        commits = json.loads(out.read_text(encoding="utf-8"))["commits_all"]
    syncs = sum(calls.values())
    return {"n": count, "commits": commits, **calls, "per_commit": round(syncs / commits, 3)}


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description="syncs per commit, counted by strace")
    parser.add_argument("--n", type=int, default=500)
    given = parser.parse_args()
    if shutil.which("strace") is None:
        print("strace is not installed", file=sys.stderr)
        return 2
    found = measure(given.n)
    print(json.dumps(found))
    return 0 if found["per_commit"] >= 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
