"""Sum up a meter's readings for ever: `checkpoint` keeps the history short and the cost flat."""

from tallystick import Bundle, Flow, Nat, Record, checkpoint, receive

app = Bundle("meter")
EVERY = 100


class Installed(Record):
    meter: str


class Reading(Record):
    meter: str
    value: Nat


class Total(Record):
    meter: str
    readings: Nat
    total: Nat


class Summed(Record):
    meter: str
    readings: Nat
    total: Nat


@app.workflow(key="meter")
async def meter(ctx: Flow, start: Installed | Total) -> Total:
    total = start if isinstance(start, Total) else Total(meter=start.meter, readings=0, total=0)
    for _ in range(EVERY):
        reading = await receive(Reading)
        total = total.replace(readings=total.readings + 1, total=total.total + reading.value)
    ctx.emit(Summed(meter=total.meter, readings=total.readings, total=total.total))
    await checkpoint(total)
