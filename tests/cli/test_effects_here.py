"""Commands about effects and questions in a folder that no node serves (K-45)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.runs import tally
from tests.cli.test_effects import APP, ORDERS


def test_a_question_is_answered_without_a_running_node(tmp_path: Path) -> None:
    """04 section 9: a command opens the files itself, and nothing else is performed for it."""
    (tmp_path / "app.py").write_text(APP)
    where = ("--data", str(tmp_path / ".tally"), "--json")
    tally("world", "create", "main", "--bundle", str(tmp_path / "app.py"), *where)
    for order, what in (("a-1", "ask"), ("w-1", "wait")):
        tally("send", "shop/Placed@1", json.dumps({"order_id": order, "what": what}), *where)
    (row,) = tally("ask", "ls", *where).value["items"]
    done = tally("ask", "answer", row["intent"], "--choice", "yes", *where)
    assert (done.code, done.err) == (0, "")
    assert tally("cell", "show", ORDERS, "a-1", *where).value["state"] == {"said": "yes"}
    assert tally("cell", "show", ORDERS, "w-1", *where).value["status"] == "waiting"
    assert tally("verify", "--replay", *where).value["receipts"] == {"sealed": 1, "bad": 0}


def test_a_restore_counts_every_effect_that_it_holds(tmp_path: Path) -> None:
    """04 section 13: also behind the first page of the list; republish would leave none of them."""
    (tmp_path / "app.py").write_text(APP)
    where = ("--data", str(tmp_path / ".tally"), "--json")
    tally("world", "create", "main", "--bundle", str(tmp_path / "app.py"), *where)
    orders = [json.dumps({"order_id": f"c-{n}", "what": "charge"}) for n in range(1003)]
    sent = tally("send", "shop/Placed@1", "-", *where, stdin="\n".join(orders))
    assert sent.value["sent"] == 1003
    copy = str(tmp_path / "copy")
    assert tally("backup", copy, *where).code == 0
    into = str(tmp_path / "there" / ".tally")
    assert tally("restore", copy, "--into", into, "--json").value["held"] == 1003
