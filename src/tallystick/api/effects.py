"""Effects over HTTP: open ones from the live world, settled ones from the journal."""

from __future__ import annotations

from itertools import chain
from typing import Any

from tallystick.api.cells import accepted
from tallystick.api.models import Decision, IntentReceipt, Operation, RevokeGrantBody
from tallystick.api.reads import live, near, page_of, serving_of
from tallystick.api.refusals import BadReceipt
from tallystick.api.request import Request, Response
from tallystick.api.routes import Handler
from tallystick.api.seals import seal_of
from tallystick.errors import Conflict, Forbidden, Rejected, TallyError, UnknownName
from tallystick.journal.base import Reader
from tallystick.journal.lineage import floor_of
from tallystick.kernel.inputs import Decide, Operate, Receipt, RevokeGrant
from tallystick.kernel.world import World
from tallystick.model.effects import STATUSES
from tallystick.node.nearby import effects_page
from tallystick.values import canon
from tallystick.values.names import is_hash
from tallystick.views import effects, pages, waiting
from tallystick.views.effects import EffectFilter, Settlements

_OPEN = "open"


async def list_effects(request: Request) -> Response:
    """GET W/effects: open effects; with another `?status=` (or `all`), those of the journal."""
    query = request.query
    status = query.get("status", _OPEN)
    pages.known("status", status, (_OPEN, "all", *STATUSES))
    held = request.flag("held") if "held" in query else None
    shown_status = None if status == "all" else status
    wanted = EffectFilter(shown_status, query.get("effect"), held)
    page = page_of(request)
    serving = serving_of(request)
    if status == _OPEN:
        found = await live(request, lambda w: effects.effect_list(w, page, wanted, serving))
        return Response(value=await _known(request, found))
    upto = await live(request, lambda world: world.seq)
    if request.at is None:
        found = await near(request, upto, lambda s: effects_page(s, page, wanted))
        return Response(value=await _known(request, found))
    # What was open then may be settled now: the index knows the end of a history, not its middle.
    found = await request.node.read(
        lambda reader: effects.effect_history(
            reader.read(request.world, floor_of(reader.lineage(request.world)).seq, upto),
            page,
            wanted,
            upto,
        )
    )
    return Response(value=await _known(request, found))


async def _known(request: Request, found: dict[str, Any]) -> dict[str, Any]:
    """A list of effects; refuses an empty one of an effect that nobody has defined.

    What an upgrade took away may still stand in the journal, so the list is looked at first.
    """
    name = request.query.get("effect")
    if name is not None and not found["items"] and found["next"] is None:
        pages.known("effect", name, await request.node.look(request.world, _names))
    return found


def _names(world: World) -> list[str]:
    return list(world.active.catalogue.effects)


async def show_effect(request: Request) -> Response:
    """GET W/effects/{intent}: both halves of one effect."""
    return Response(value=await shown_effect(request, request.named["intent"]))


async def why_effect(request: Request) -> Response:
    """GET W/effects/{intent}/why: why it is open, or how it ended, and how it was judged."""
    found = await shown_effect(request, request.named["intent"])
    keys = ("intent", "effect", "status", "hold", "why", "reason", "judged", "receipt", "as_of")
    return Response(value={key: found.get(key) for key in keys})


async def shown_effect(request: Request, text: str) -> dict[str, Any]:
    """Both halves of the effect that a hash, or the first digits of it, names."""
    serving = serving_of(request)

    def look(world: World) -> tuple[dict[str, Any] | None, int]:
        try:
            intent = effects.open_intent(world, text)
        except UnknownName:
            return None, world.seq
        found = effects.open_show(world, intent, serving)
        found["reason"] = waiting.why(intent, serving).shown()
        return found, world.seq

    found, upto = await live(request, look)
    if found is None:
        places = await _places(request, text, upto)
        found = await request.node.read(lambda r: _settled(r, request.world, text, upto, places))
    return found


async def _places(request: Request, text: str, upto: int) -> tuple[int, ...] | None:
    """Where both halves of a settled effect stand, by the index; None means: look everywhere."""
    if not is_hash(text):
        return None
    row = await request.node.index.intent(request.world, canon.raw_of(text))
    if row is None or row.settled_seq is None or row.settled_seq > upto or row.attempts > 1:
        return None
    return row.opened_seq, row.settled_seq


def _settled(
    reader: Reader, world: str, text: str, upto: int, places: tuple[int, ...] | None
) -> dict[str, Any]:
    given = text.removeprefix("sha256:")
    floor = floor_of(reader.lineage(world)).seq
    spans = [(floor, upto)] if places is None else [(seq - 1, seq) for seq in places]
    frames = chain.from_iterable(reader.read(world, *span) for span in spans)
    known = Settlements().read(frames).known
    found = [halves for intent, halves in known.items() if intent.hex().startswith(given)]
    if len(found) > 1:
        raise Rejected("more than one intent begins so", code="intent.ambiguous")
    if not found:
        raise UnknownName("no intent begins so", code="intent.unknown", where={"intent": text[:80]})
    shown = effects.effect_show(found[0].asked, found[0].row(), found[0].receipt)
    return {**shown, "reason": None, "as_of": upto}


def operate_effect(verb: str) -> Handler:
    """The handler of POST W/effects/{intent}/VERB."""

    async def handler(request: Request) -> Response:
        body = request.read(Operation)
        text = request.named["intent"]
        ident = await request.node.look(
            request.world, lambda world: effects.open_intent(world, text).record.intent
        )
        given = Operate(request.sample(), verb, request.who.principal, body.reason, intent=ident)
        return await accepted(request, given)

    return handler


def decide_effect(decision: str) -> Handler:
    """The handler of POST W/effects/{intent}/approve and reject."""

    async def handler(request: Request) -> Response:
        body = request.read(Decision)
        text = request.named["intent"]
        ident = await request.node.look(
            request.world, lambda world: effects.open_intent(world, text).record.intent
        )
        made = None if body.seal is None else seal_of(body.seal)
        given = Decide(request.sample(), ident, request.who.principal, decision, body.comment, made)
        return await accepted(request, given)

    return handler


async def post_receipt(request: Request) -> Response:
    """POST W/receipts: a sealed outcome; whatever is wrong with it changes nothing."""
    body = request.read(IntentReceipt)
    if body.world not in (None, request.world, request.named["w"]):
        raise Forbidden(
            "the body names another world than the path",
            code="auth.missing_world",
            where={"path": "/world"},
        )
    receipt = Receipt(
        request.world,
        canon.raw_of(body.intent),
        body.effect,
        body.status,
        body.payload,
        body.executor,
        body.attempt,
        body.started_ns,
        body.ended_ns,
        body.usage,
        seal_of(body.seal),
    )
    answer = await request.node.work.deliver(receipt, request.sample())
    return settled(answer.kind, answer.seq, answer.detail)


def settled(kind: str, seq: int, detail: Any) -> Response:
    """What an executor is told: settled, seen before, or dropped with the reason."""
    if kind == "settled":
        return Response(202, {"seq": seq, "status": "settled"})
    if kind == "seen" or detail == "duplicate":
        return Response(200, {"seq": seq, "status": "duplicate"})
    raise _dropped(str(detail), seq)


def _dropped(reason: str, seq: int) -> TallyError:
    """A receipt that was dropped, as a refusal; the evidence stands in the journal."""
    words = f"the receipt settles nothing: {reason}"
    where = {"reason": reason, "seq": seq}
    if reason in ("late", "stale_attempt"):
        hint = "the intent went on without this attempt; ask for new work"
        return Conflict(words, code=f"receipt.{reason}", where=where, hint=hint)
    return BadReceipt(words, code=f"receipt.{reason}", where=where)


async def revoke_grant(request: Request) -> Response:
    """POST W/grants/{grant}/revoke: from now on it, and what derives from it, says no."""
    body = request.read(RevokeGrantBody)
    who = (request.named["grant"], request.who.principal)
    given = RevokeGrant(request.sample(), *who, body.reason, body.cancel_open)
    return await accepted(request, given)
