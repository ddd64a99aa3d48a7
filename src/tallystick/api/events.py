"""Events: the busiest door of a node.

One event or a batch; a batch is one commit, and each of its entries is accepted or refused alone.
202 means durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from time import perf_counter
from typing import Any, Final

from msgspec import UNSET

from tallystick.api import wire
from tallystick.api.models import EventBody
from tallystick.api.once import REPLAYED
from tallystick.api.request import Request, Response
from tallystick.errors import Rejected, TallyError, TooLarge
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Spelling, Submit
from tallystick.model.tuples import make
from tallystick.values import canon

_UNROUTED: Final = (b"tally-outcome", b"unrouted")
_LENSES: Final[dict[str, Spelling]] = {"sugar": "sugar", "tagged": "tagged"}


async def send(request: Request) -> Response:
    """POST W/events: one event, or `{"events": [...]}`."""
    document = request.document()
    if type(document) is dict and "events" in document:
        return await _send_batch(request, document)
    body = wire.convert(document, EventBody)
    key = request.idem_key
    if body.idempotency_key not in (None, key) and key is not None:
        raise Rejected(
            "the header and the body name two Idempotency-Keys",
            code="ingress.bad_key",
            where={"path": "/idempotency_key"},
        )
    given = submit_of(request, body, key or body.idempotency_key, lens_of(request))
    begun = perf_counter()
    (answer,) = await request.node.offer(request.world, given, size=len(request.body))
    metrics = request.node.metrics
    if isinstance(answer, Exception):
        metrics.count("tally_events_total", result="refused")
        raise answer
    _link(request, [answer])
    metrics.observe("tally_ack_seconds", perf_counter() - begun)
    metrics.count("tally_events_total", result=answer.kind)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if answer.kind == "seen":
        headers = (REPLAYED,)
    elif answer.kind == "unrouted":
        headers = (_UNROUTED,)
    return Response(202, _told(request.world, answer), headers)


def submit_of(request: Request, body: EventBody, idem_key: str | None, lens: Spelling) -> Submit:
    """The input that an event becomes."""
    fields = (
        request.sample(),
        body.schema,
        body.value,
        lens,
        None if body.key is UNSET else canon.encode(body.key),
        body.tags,
        None if idem_key is None else idem_key.encode("ascii"),
        "external",
        request.who.principal,
    )
    return make(Submit, fields)


def lens_of(request: Request) -> Spelling:
    """How the values of a body are spelled; refuses an unknown `?lens=`."""
    if request.cbor:
        return "native"
    name = request.query.get("lens", "sugar")
    if name not in _LENSES:
        raise Rejected(
            "?lens= must be sugar or tagged", code="request.bad_query", where={"path": "?lens"}
        )
    return _LENSES[name]


async def _send_batch(request: Request, document: dict[str, Any]) -> Response:
    events = document["events"]
    most = request.node.config.ingress.batch_max
    if type(events) is not list or not events or set(document) != {"events"}:
        raise Rejected(
            "a batch is one list of events, not empty",
            code="request.bad_batch",
            where={"path": "/events"},
        )
    if len(events) > most:
        raise TooLarge(
            f"a batch has at most {most} events",
            code="request.batch_too_large",
            where={"max": most, "got": len(events)},
        )
    if request.idem_key is not None:
        raise Rejected(
            "an Idempotency-Key names one event",
            code="ingress.bad_key",
            where={"path": "Idempotency-Key"},
            hint="give each event of a batch its own idempotency_key",
        )
    found = await _offered(request, events)
    results = [_result(request.world, index, each) for index, each in enumerate(found)]
    kinds = Counter(each.kind if isinstance(each, Answer) else "refused" for each in found)
    for kind, count in kinds.items():
        request.node.metrics.count("tally_events_total", count, result=kind)
    accepted = sum(result["status"] == 202 for result in results)
    status = 202 if accepted == len(results) else 207
    return Response(status, {"results": results})


async def _offered(request: Request, events: list[Any]) -> list[Answer | TallyError]:
    """The answers of a batch in its order; what cannot be read is refused where it stands."""
    found: list[Answer | TallyError] = []
    inputs: list[Submit] = []
    places: list[int] = []
    lens = lens_of(request)
    for place, event in enumerate(events):
        try:
            body = wire.convert(event, EventBody)
            inputs.append(submit_of(request, body, body.idempotency_key, lens))
        except TallyError as why:
            found.append(why)
            continue
        places.append(place)
        found.append(Answer("waiting"))
    if inputs:
        size = len(request.body)
        answers = await request.node.offer(request.world, *inputs, size=size)
        for place, answer in zip(places, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, TallyError):
                raise answer
            found[place] = answer
    _link(request, found)
    return found


def _link(request: Request, answers: Iterable[Answer | TallyError]) -> None:
    """Tell whoever traces that these events came with somebody else's trace."""
    given = request.headers.get(b"traceparent")
    if request.node.linked is None or given is None:
        return
    for answer in answers:
        if isinstance(answer, Answer) and answer.event_hash is not None:
            request.node.linked(answer.event_hash, given)


def _told(world: str, answer: Answer) -> dict[str, Any]:
    assert answer.event_hash is not None, "an admitted event has a hash"
    return {"world": world, "seq": answer.seq, "event": canon.text_of(answer.event_hash)}


def _result(world: str, index: int, found: Answer | TallyError) -> dict[str, Any]:
    if isinstance(found, TallyError):
        return {"index": index, "status": found.status, "problem": wire.problem_of(found)}
    told = {"index": index, "status": 202, **_told(world, found)}
    if found.kind == "seen":
        told["replayed"] = True
    return told
