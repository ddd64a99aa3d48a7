"""A world that changes itself when it is told to: each step is an effect, and asks for the next."""

from tallystick import Bundle, Ctx, Record
from tallystick.workflow.governance import Apply, Approve, Propose, Shadow

VERSION = 1
app = Bundle("self")


class Change(Record):
    name: str
    bundle: str


class Deed(Record):
    log: list[str]
    proposal: str | None = None


@app.workflow(key="name", lifecycle="entity", effects=[Propose, Shadow, Approve, Apply])
def deploy(
    state: Deed | None,
    event: Change | Propose.Settled | Shadow.Settled | Approve.Settled | Apply.Settled,
    ctx: Ctx,
) -> Deed:
    held = state or Deed(log=[])
    match event:
        case Change(bundle=bundle):
            ctx.effect(Propose(bundle_ref=bundle))
        case Propose.Ok(value=made):
            ctx.effect(Shadow(proposal=made.proposal))
            held = held.replace(proposal=made.proposal)
        case Shadow.Ok():
            ctx.effect(Approve(proposal=held.proposal))
        case Approve.Ok():
            ctx.effect(Apply(proposal=held.proposal))
        case Apply.Ok(value=done):
            told = f"{VERSION} {done.status} {len(done.blockers)}"
            return held.replace(log=[*held.log, told])
        case Propose.Failed(code=code) | Shadow.Failed(code=code):
            return held.replace(log=[*held.log, code])
        case Approve.Failed(code=code) | Apply.Failed(code=code):
            return held.replace(log=[*held.log, code])
    return held.replace(log=[*held.log, str(VERSION)])
