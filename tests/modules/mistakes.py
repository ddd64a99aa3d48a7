"""What somebody writes in the first ten minutes, and what lint has to say about it."""

from __future__ import annotations

from typing import NamedTuple

HELLO = """\
from tallystick import Bundle, Ctx, Record
app = Bundle("demo")
class Greet(Record):
    name: str
class Guest(Record):
    visits: int = 0
@app.workflow(key="name", lifecycle="entity")
def greeter(state: Guest | None, event: Greet, ctx: Ctx) -> Guest:
    guest = state or Guest()
    ctx.log("hello", name=event.name, visit=guest.visits + 1)
    return guest.replace(visits=guest.visits + 1)
"""
PAYS = """\
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("demo")
class Go(Record):
    name: str
class Got(Record):
    ref: str
class Charge(Effect[Got], executor="payments"):
    token: str
    cents: int
class Paid(Record):
    n: int = 0
@app.workflow(key="name", effects=[Charge])
def run(state: Paid | None, event: Go | Charge.Settled, ctx: Ctx) -> Paid:
    match event:
        case Go(name=name):
            ctx.effect(Charge(token=name, cents=1), key="k", timeout="30s")
            return Paid(n=1)
        case Charge.Ok(value=got):
            ctx.log("paid", ref=got.ref)
            return Paid(n=2)
        case Charge.Failed():
            return Paid(n=3)
    return state or Paid()
"""
WAITS = """\
from tallystick import Bundle, Effect, Flow, Record, effect, gather, sleep
app = Bundle("demo")
class Go(Record):
    name: str
class Got(Record):
    ref: str
class Charge(Effect[Got], executor="payments"):
    token: str
async def pause(got: Got) -> Got:
    await sleep("1s")
    return got
@app.workflow(key="name", effects=[Charge])
async def run(ctx: Flow, start: Go) -> Got:
    got = await effect(Charge(token=start.name), key="k")
    both = [effect(Charge(token="a"), key="a"), effect(Charge(token="b"), key="b")]
    await gather(*both)
    return await pause(got)
"""


class Mistake(NamedTuple):
    """A program with one thing changed, and the finding: its code, its line, what it must say."""

    base: str
    good: str
    bad: str
    code: str
    line: int
    says: str
    hint: str

    @property
    def source(self) -> bytes:
        """The program with the mistake in it."""
        assert self.good in self.base, "the change is one"
        return self.base.replace(self.good, self.bad, 1).encode()


MISTAKES = {
    "event misspelt": Mistake(
        HELLO, "event: Greet", "event: Gret", "TL107", 8, "Gret", "did you mean Greet?"
    ),
    "key misspelt": Mistake(HELLO, '"name"', '"nmae"', "TL302", 7, "nmae", "did you mean name?"),
    "option misspelt": Mistake(
        HELLO, "lifecycle=", "lifecyle=", "TL302", 7, "lifecyle", "did you mean lifecycle?"
    ),
    "option with another value": Mistake(
        HELLO, '"entity"', '"entitty"', "TL302", 7, "process, entity", "definition"
    ),
    "import misspelt": Mistake(
        HELLO, "Ctx, Record", "Ctx, Recrod", "TL101", 1, "Recrod", "did you mean Record?"
    ),
    "package misspelt": Mistake(
        HELLO, "from tallystick", "from tallystik", "TL101", 1, "tallystik", "tallystick?"
    ),
    "a name of the kit not imported": Mistake(
        HELLO, "Bundle, Ctx, Record", "Bundle, Record", "TL107", 8, "Ctx", "from tallystick import"
    ),
    "a package of the world": Mistake(
        HELLO, "app =", "import requests\napp =", "TL101", 2, "requests", "Http effect"
    ),
    "a blocking call": Mistake(
        HELLO, "app =", "import time\napp =", "TL101", 2, "time", "ctx.timer"
    ),
    "a file": Mistake(
        HELLO, "    guest =", '    open("x")\n    guest =', "TL105", 9, "open", "File effect"
    ),
    "effect undeclared": Mistake(
        PAYS, ", effects=[Charge]", "", "TL201", 13, "Charge", "effects=[Charge]"
    ),
    "effect in place of its outcome": Mistake(
        PAYS, "| Charge.Settled", "| Charge", "TL302", 13, "no event", "Charge.Settled"
    ),
    "effect misspelt": Mistake(
        PAYS, "(Charge(token", "(Chrage(token", "TL107", 16, "Chrage", "did you mean Charge?"
    ),
    "effect without its executor": Mistake(
        PAYS, ', executor="payments"', "", "TL302", 13, "Charge", "executor="
    ),
    "state that is no record": Mistake(
        HELLO, "Guest(Record)", "Guest", "TL302", 8, "write class Guest(Record)", "Json"
    ),
    "state of anything": Mistake(
        HELLO, "visits: int = 0", "visits: object", "TL302", 6, "Guest.visits", "Json"
    ),
    "state of a bare set": Mistake(
        HELLO, "visits: int = 0", "visits: set", "TL302", 6, "as frozenset[str]", "Json"
    ),
    "state of a union": Mistake(
        HELLO, "visits: int = 0", "visits: int | str", "TL302", 6, "make each a Record", "Json"
    ),
    "state of a float": Mistake(
        HELLO, "visits: int = 0", "visits: float", "TL104", 6, "Guest.visits", "Decimal"
    ),
    "default that could change": Mistake(
        HELLO, "int = 0", "list[int] = []", "TL302", 5, "Guest.visits", "default_factory=list"
    ),
    "annotation in quotes": Mistake(
        HELLO, "visits: int", 'visits: "int"', "TL302", 6, "Guest.visits", "without quotes"
    ),
    "state without annotation": Mistake(
        HELLO, "state: Guest | None", "state", "TL302", 8, "state", "state: S | None"
    ),
    "an argument too many": Mistake(
        HELLO, "ctx: Ctx)", "ctx: Ctx, n: int)", "TL302", 8, "4 things", "state: S | None"
    ),
    "two bundles": Mistake(
        HELLO, "app =", 'old = Bundle("old")\napp =', "TL302", 3, "old, app", "keep one"
    ),
    "another form of namespace": Mistake(
        HELLO, '"demo"', '"My Demo"', "TL302", 2, "My Demo", "lower-case"
    ),
    "a list that all ticks share": Mistake(
        HELLO, "app =", "seen = []\napp =", "TL301", 2, "seen", "keep it in the state"
    ),
    "a class without its tick": Mistake(
        HELLO,
        "def greeter(",
        "class greeter:\n  @staticmethod\n  def tik(",
        "TL302",
        8,
        "no tick",
        "def tick(",
    ),
    "syntax": Mistake(HELLO, "def greeter(", "def greeter((", "TL105", 8, "parse", "syntax"),
    "field misspelt on an event": Mistake(
        HELLO, "event.name", "event.nmae", "TL306", 10, "Greet has no nmae", "mean name?"
    ),
    "field misspelt in replace": Mistake(
        HELLO, "replace(visits", "replace(visit", "TL306", 11, "no visit", "mean visits?"
    ),
    "field misspelt in a request": Mistake(
        PAYS, "cents=1", "cent=1", "TL306", 16, "Charge has no cent", "mean cents?"
    ),
    "field misspelt in a pattern": Mistake(
        PAYS, "case Go(name=", "case Go(nam=", "TL306", 15, "Go has no nam", "mean name?"
    ),
    "field misspelt on an answer": Mistake(
        WAITS,
        "    return await pause(got)",
        "    return await pause(Got(ref=got.rf))",
        "TL306",
        17,
        "Got has no rf",
        "mean ref?",
    ),
    "outcome misspelt": Mistake(
        PAYS, "Charge.Ok", "Charge.OK", "TL306", 18, "Charge has no OK", "mean Ok?"
    ),
    "method of the context misspelt": Mistake(
        HELLO, "ctx.log", "ctx.logg", "TL306", 10, "Ctx has no logg", "mean log?"
    ),
    "argument of the context misspelt": Mistake(
        PAYS, 'key="k"', 'kee="k"', "TL306", 16, "kee", "mean key?"
    ),
    "field forgotten": Mistake(
        PAYS, ", cents=1", "", "TL306", 16, "Charge needs cents", "cents=..."
    ),
    "field without its name": Mistake(
        PAYS, "Paid(n=1)", "Paid(1)", "TL306", 17, "given by name", "Paid(n=...)"
    ),
    "record changed in place": Mistake(
        HELLO, "    ctx.log", "    guest.visits = 5\n    ctx.log", "TL306", 10, "Guest", ".replace("
    ),
    "default of another type": Mistake(
        HELLO, "int = 0", 'int = "zero"', "TL307", 6, "Guest.visits", "of that type"
    ),
    "default of None": Mistake(
        HELLO, "int = 0", "int = None", "TL307", 6, "Guest.visits", "int | None = None"
    ),
    "value of another type": Mistake(
        PAYS, "Paid(n=1)", 'Paid(n="one")', "TL307", 17, "Paid.n", "of that type"
    ),
    "span that is none": Mistake(PAYS, '"30s"', '"30 sec"', "TL307", 16, "30 sec", '"30s"'),
    "class in place of a request": Mistake(
        PAYS, "Charge(token=name, cents=1)", "Charge", "TL307", 16, "a class", "Charge(...)"
    ),
    "text in place of an event": Mistake(
        HELLO, "    ctx.log", '    ctx.emit("hi")\n    ctx.log', "TL307", 10, "hi", "Record"
    ),
    "another thing than the state": Mistake(
        HELLO,
        "return guest.replace(visits=guest.visits + 1)",
        "return 1",
        "TL307",
        11,
        "1",
        "Guest",
    ),
    "state never given back": Mistake(
        HELLO, "return guest", "guest", "TL307", 8, "never gives", "return a Guest"
    ),
    "another annotation than the state": Mistake(
        HELLO, "-> Guest:", "-> int:", "TL307", 8, "int", "-> Guest"
    ),
    "no annotation of what is given": Mistake(
        HELLO, " -> Guest:", ":", "TL308", 8, "greeter", "-> Guest"
    ),
    "await forgotten, and kept": Mistake(
        WAITS,
        'got = await effect(Charge(token=start.name), key="k")',
        'late = effect(Charge(token=start.name), key="k")\n    got = Got(ref=late.ref)',
        "TL401",
        14,
        "effect",
        "await effect",
    ),
    "await forgotten, alone": Mistake(
        WAITS, "    await gather", "    gather", "TL401", 16, "gather", "await gather"
    ),
    "await of a function forgotten": Mistake(
        WAITS, "return await pause", "return pause", "TL401", 17, "pause", "await pause"
    ),
}
