"""The one workflow of the acceptance kit: charge on an odd amount, wait for a due time."""

from tallystick import Bundle, Ctx, Effect, Http, Llm, Nat, Record, Shell, Timer

app = Bundle("kit")


class Order(Record):
    id: str
    cents: Nat
    sink: str
    due_ns: Nat | None = None
    timeout_ns: Nat | None = None


class Charged(Record):
    id: str
    phase: str
    heard: Nat = 0


@app.workflow(key={Order: "id"}, effects=[Http, Timer])
def charge(state: Charged | None, event: Order | Http.Settled | Timer.Settled, ctx: Ctx) -> Charged:
    match event:
        case Order():
            return ask(event, ctx)
        case _:
            ctx.complete("heard")
            return state.replace(phase="heard", heard=state.heard + 1)


def ask(order: Order, ctx: Ctx) -> Charged:
    new = Charged(id=order.id, phase="asked")
    if order.due_ns is not None:
        ctx.timer(order.due_ns, corr=order.id)
    elif order.cents % 2 == 1:
        call = Http(method="POST", url=order.sink, body=f"charge:{order.id}.".encode())
        ctx.effect(call, corr=order.id, timeout=order.timeout_ns)
    else:
        ctx.complete("even")
        return new.replace(phase="even")
    return new


# ---- a bounded set of cells that only count -----------------------------------------------------


class Coin(Record):
    id: str
    cents: Nat


class Purse(Record):
    coins: Nat
    cents: Nat


@app.workflow(key={Coin: "id"})
def purse(state: Purse | None, event: Coin, ctx: Ctx) -> Purse:
    if state is None:
        return Purse(coins=1, cents=event.cents)
    return state.replace(coins=state.coins + 1, cents=state.cents + event.cents)


# ---- work for a till that stands elsewhere ----------------------------------------------------


class Paid(Record):
    ref: str


class Pay(Effect[Paid], executor="till"):
    cents: Nat


class Bill(Record):
    id: str
    cents: Nat


class Billed(Record):
    id: str
    heard: list[str]


@app.workflow(key={Bill: "id"}, effects=[Pay])
def bill(state: Billed | None, event: Bill | Pay.Settled, ctx: Ctx) -> Billed:
    """Ask the till, with the same parameters for every bill of an amount; keep what it says."""
    match event:
        case Bill():
            ctx.effect(Pay(cents=event.cents))
            return Billed(id=event.id, heard=[])
        case Pay.Ok(value=value):
            return state.replace(heard=[*state.heard, value.ref])
        case Pay.Rejected():
            return state.replace(heard=[*state.heard, "rejected"])
        case _:
            return state.replace(heard=[*state.heard, "failed"])


class Slip(Record):
    id: str
    cents: Nat


@app.workflow(key={Slip: "id"}, effects=[Pay])
def slip(state: Billed | None, event: Slip | Pay.Ok, ctx: Ctx) -> Billed:
    """The same without a word for a receipt that cannot be read."""
    match event:
        case Slip():
            ctx.effect(Pay(cents=event.cents))
            return Billed(id=event.id, heard=[])
        case Pay.Ok(value=value):
            return state.replace(heard=[*state.heard, value.ref])


# ---- what may not be asked for ------------------------------------------------------------------


class Try(Record):
    id: str
    what: str
    url: str


class Tried(Record):
    codes: list[str]


@app.workflow(key={Try: "id"}, effects=[Http, Llm])
def trier(
    state: Tried | None, event: Try | Http.Settled | Llm.Settled | Shell.Settled, ctx: Ctx
) -> Tried:
    """Ask for what is refused at each stage, and keep the codes of the refusals."""
    match event:
        case Try(what="undeclared"):
            ctx.effect(Shell(argv=["/bin/true"]))
        case Try(what="ungranted"):
            ctx.effect(Llm(provider="local", model="m", messages=[], max_tokens=1))
        case Try(what="forbidden"):
            ctx.effect(Http(method="DELETE", url=event.url))
        case Try(what="misshapen"):
            ctx.effect(Http(method="POST", url=event.url, headers=7))
        case Try():
            ctx.effect(Http(method="POST", url=event.url, body=b"control"))
        case Http.Denied(code=code) | Llm.Denied(code=code) | Shell.Denied(code=code):
            return state.replace(codes=[*state.codes, code])
        case _:
            return state.replace(codes=[*state.codes, "performed"])
    return Tried(codes=[])
