"""`tally demo`: orders are paid at a bank that fails once, the node is killed, nothing is lost.

Bank and node are processes of their own; what the story tells was seen from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from tallystick.cli.shape import ANY, HASH
from tallystick.cli.verb import BROKEN, OK, Done, Options, Verb, flag
from tallystick.errors import TallyError

ORDERS: Final = (("o-1", 1250), ("o-2", 990))
CELLS: Final = "/cells/shop%2Forders%401/"


class Story:
    """The demonstration, told in acts; `say` gets each line of it."""

    def __init__(self, stage: Any, say: Any) -> None:
        self.stage = stage
        self.say = say
        self.events: dict[str, int] = {}

    def tell(self) -> dict[str, Any]:
        """The whole story, and what came of it."""
        self.open()
        self.place()
        killed_at = self.kill()
        self.come_back()
        return self.proof(killed_at)

    def open(self) -> None:
        """A bank and a node begin."""
        self.stage.prepare(refusals=1)
        self.stage.start()
        self.say("a bank and a node run, each a process of its own; the world is made from app.py")

    def place(self) -> None:
        """Two orders come in, one of them twice under one Idempotency-Key."""
        first, *others = ORDERS
        self._send(*first)
        self.stage.until(lambda: self._phase(first[0]) == "waiting", "the first charge failed")
        self.say("the first order comes in; the bank is down, so it waits before it tries again")
        for order, cents in (*others, *others):
            self._send(order, cents)
        self.say("the second comes in twice, with one Idempotency-Key: it is charged once")

    def _send(self, order: str, cents: int) -> None:
        body = {"schema": "shop/Placed@1", "value": {"order_id": order, "cents": cents}}
        headers = {"Idempotency-Key": order}
        sent = self.stage.ask("POST", "/events", body=body, headers=headers)
        self.events[order] = sent["seq"]

    def _cell(self, order: str) -> dict[str, Any]:
        found: dict[str, Any] = self.stage.ask("GET", CELLS + order)
        return found

    def _phase(self, order: str) -> Any:
        try:
            state = self._cell(order)["state"]
        except TallyError as why:
            if why.code != "cell.unknown":
                raise
            return None
        phase = None if state is None else state["phase"]
        return phase["$tag"] if isinstance(phase, dict) else phase

    def kill(self) -> int:
        """SIGKILL while a timer is open."""
        self.stage.until(lambda: self._phase(ORDERS[-1][0]) == "paid", "the second is paid")
        head: int = self.stage.ask("GET", "/journal/head")["seq"]
        self.stage.kill()
        self.say("kill -9 in the middle: the node gets no chance to save anything")
        return head

    def come_back(self) -> None:
        """The same folder, another process."""
        self.stage.start()
        self.say(
            "a new node opens the journal and goes on: the timer fires, the charge is repeated"
        )
        for order, _ in ORDERS:
            self.stage.until(lambda order=order: self._phase(order) == "paid", f"{order} is paid")
        self.stage.until(self._summed, "the ledger has both")

    def _summed(self) -> bool:
        found = self.stage.ask("GET", "/cells/shop%2Fledger%401/-")
        return bool(found["state"] and found["state"]["orders"] == len(ORDERS))

    def proof(self, killed_at: int) -> dict[str, Any]:
        """Every tick again, the roots compared; what the bank saw; the trace of the first order."""
        replayed = self.stage.ask("POST", "/replay", body={})
        live = self.stage.ask("GET", "/root")
        trace = self.stage.ask("GET", "/trace", query={"seq": self.events[ORDERS[0][0]]})
        bank = self.stage.entries()
        code = self.stage.stop()
        charged = sorted(row["order"] for row in bank if row["what"] == "charged")
        equal = replayed["ok"] and replayed["root"] == live["root"]
        return {
            "equal": bool(equal and charged == [order for order, _ in ORDERS] and code == 0),
            "killed_at": killed_at,
            "ticks": replayed["ticks"],
            "root": live["root"],
            "replayed_root": replayed["root"],
            "bank": bank,
            "exit": code,
            "trace": trace,
        }


def _demo(call: Any, options: Options) -> Done:
    from tallystick.cli.stage import Stage  # noqa: PLC0415  # processes, only here

    with _folder(keep=options["keep"]) as folder:
        stage = Stage(folder)
        try:
            told = Story(
                stage, lambda text: call.console.print(f"* {escape(text)}", soft_wrap=True)
            ).tell()
        finally:
            stage.close()
        if options["keep"]:
            call.say(f"kept: {folder}")
    return Done(told, OK if told["equal"] else BROKEN)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    made = Path(mkdtemp(prefix="tally-demo-"))
    try:
        yield made
    finally:
        if not keep:
            rmtree(made)


def _picture(console: Console, value: Any) -> None:
    from tallystick.views.trace import picture  # noqa: PLC0415  # a heavy import

    console.print()
    for line in picture(value["trace"]):
        console.print(escape(line), soft_wrap=True)
    console.print()
    for row in value["bank"]:
        console.print(f"bank: {row['what']:<8} {row['order']}  {row['cents']} cents")
    console.print(f"\n{value['ticks']} ticks were run again")
    console.print(f"live root     {value['root']}", soft_wrap=True)
    console.print(f"replayed root {value['replayed_root']}", soft_wrap=True)
    console.print("equal" if value["equal"] else "NOT EQUAL")


VERBS = (
    Verb(
        "demo",
        "orders, a failing bank, kill -9, and a replay with equal roots",
        _demo,
        (flag("keep", "keep the folder"),),
        {
            "equal": bool,
            "killed_at": int,
            "ticks": int,
            "root": HASH,
            "replayed_root": HASH,
            "bank": [{"what": str, "order": str, "cents": int}],
            "exit": int,
            "trace": ANY,
        },
        _picture,
    ),
)
