"""Proposals: what a world remembers of changes that stand for decision (06 section 6).

A proposal is kept with the votes and reports it has; whether it is shadowed, approved or stale
follows from those, from the rules in force and from the active manifest, and is never stored.
All of it is in the state root and in every snapshot; a world without proposals has an empty value,
so older roots stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tallystick.model import records

SUBMITTED: Final = "submitted"
SHADOWED: Final = "shadowed"
APPROVED: Final = "approved"
STALE: Final = "stale"
APPLIED: Final = "applied"
REJECTED: Final = "rejected"
FAILED: Final = "failed"
FINAL: Final = (APPLIED, REJECTED, FAILED)
KEPT_MAX: Final = 1000


class Approval(NamedTuple):
    """A yes of a principal, and where it stands."""

    principal: str
    seq: int


class Proposal(NamedTuple):
    """A candidate bundle and what was said about it; `end` is set when it is over."""

    id: str
    base: bytes
    bundle: bytes
    manifest: bytes
    patch: bytes
    author: str
    report: bytes | None = None
    complete: bool = False
    proof: bytes | None = None
    votes: tuple[Approval, ...] = ()
    end: str | None = None
    code: str | None = None


class Rules(NamedTuple):
    """`governance.rules` of the manifest in force."""

    require: tuple[str, ...] = ("shadow",)
    approvals: int = 1
    author_may_approve: bool = True
    signed: bool = False
    beyond_quiescence: bool = True


def rules_of(manifest: Mapping[str, Any]) -> Rules:
    """The rules of a manifest; what it leaves out has its default."""
    given = dict(manifest.get("governance", {}).get("rules", {}))
    if "require" in given:
        given["require"] = tuple(given["require"])
    return Rules(**given)


def ready(proposal: Proposal, rules: Rules) -> bool:
    """True when every report that the rules ask for is there, and the shadow ran to its end."""
    if "shadow" in rules.require and (proposal.report is None or not proposal.complete):
        return False
    return "prove" not in rules.require or proposal.proof is not None


def status_of(proposal: Proposal, manifest: bytes, rules: Rules) -> str:
    """Where a proposal stands now."""
    if proposal.end is not None:
        return proposal.end
    if proposal.base != manifest:
        return STALE
    if ready(proposal, rules) and len(proposal.votes) >= rules.approvals:
        return APPROVED
    return SUBMITTED if proposal.report is None else SHADOWED


class Proposals:
    """The proposals of a world in the order they came; `fold` alone changes them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, Proposal] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Proposal]:
        return iter(self._known.values())

    def get(self, ident: str) -> Proposal | None:
        """A proposal by id."""
        return self._known.get(ident)

    @property
    def full(self) -> bool:
        """True when there is no room for one more that is not over."""
        return sum(each.end is None for each in self) >= KEPT_MAX

    # ---- folding ----------------------------------------------------------------------------

    def proposed(self, record: records.Proposed) -> None:
        """One more; the oldest that is over makes room."""
        if len(self._known) >= KEPT_MAX:
            over = next((each.id for each in self if each.end is not None), None)
            if over is not None:
                del self._known[over]
        self._known[record.proposal] = Proposal(
            record.proposal,
            record.base,
            record.bundle,
            record.manifest,
            record.patch,
            record.principal,
        )

    def shadowed(self, record: records.Shadowed) -> None:
        """A report is there; votes on an older one are void."""
        self._change(record.proposal, report=record.report_hash, complete=record.complete, votes=())

    def proved(self, record: records.Proved) -> None:
        """Verdicts are there."""
        self._change(record.proposal, proof=record.report_hash)

    def approved(self, record: records.Approved, seq: int) -> None:
        """One more yes."""
        known = self._known[record.proposal]
        self._change(record.proposal, votes=(*known.votes, Approval(record.principal, seq)))

    def ended(self, ident: str, end: str, code: str | None = None) -> None:
        """It is over."""
        self._change(ident, end=end, code=code)

    def _change(self, ident: str, **fields: Any) -> None:
        self._known[ident] = self._known[ident]._replace(**fields)

    # ---- as one value -----------------------------------------------------------------------

    def value(self) -> dict[str, Any]:
        """All of them as plain data: what the root covers and a snapshot keeps."""
        return {
            each.id: [*each[1:9], [list(vote) for vote in each.votes], each.end, each.code]
            for each in self
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Proposals:
        """The proposals of such a value."""
        made = cls()
        # Canonical maps are sorted by bytes; the order of coming is that of the numbers.
        for ident in sorted(value, key=lambda one: int(one[2:])):
            *plain, votes, end, code = value[ident]
            held = tuple(Approval(principal, seq) for principal, seq in votes)
            made._known[ident] = Proposal._make((ident, *plain, held, end, code))
        return made
