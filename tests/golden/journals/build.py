"""Writes the golden journal files; run it only when a format is changed on purpose.

`records.json` holds the bytes of one record of every type.
"""

from __future__ import annotations

import json
from pathlib import Path

from tallystick.model.records import put_record
from tests.model.test_records import BY_TYPE

HERE = Path(__file__).parent


def write_records() -> None:
    golden = {name: put_record(BY_TYPE[name]).hex() for name in sorted(BY_TYPE)}
    text = json.dumps(golden, indent=1) + "\n"
    (HERE / "records.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_records()
