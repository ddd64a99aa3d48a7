"""What a tick is told: its event and its surroundings, in whichever form a lane asks for them.

Both are made late, because a lane of ours shows little of either: the envelope of a receipt and
the document of a context cost more than the tick of a small reducer.
"""

from __future__ import annotations

from typing import Any

from tallystick.kernel.evolve import Evolved
from tallystick.kernel.parts import Cell, Mail
from tallystick.kernel.world import World, entropy_of
from tallystick.model import envelopes
from tallystick.model.abi import Came
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.effects import event_hash
from tallystick.model.records import ReceiptSettled
from tallystick.model.tuples import make
from tallystick.values import canon

# One delivery about to be handled; the last part is set when it crosses a change.
Turn = tuple[World, Workflow, Cell, Mail, Catalogue, Evolved | None]


class Delivered:
    """A mailbox entry as the event of a tick."""

    __slots__ = ("mail", "world")

    def __init__(self, world: World, mail: Mail) -> None:
        self.world = world
        self.mail = mail

    def value(self) -> bytes:
        """The canonical document of the workflow's own event."""
        return self.world.wrapped(self.mail)

    def plain(self) -> Any:
        """The same as a fresh plain value."""
        world, mail = self.world, self.mail
        document, arm = mail.value, mail.arm
        if document is not None:
            value = world.decoded(mail.schema, document)
        elif mail.continuation is not None:
            value = world.continued(mail, mail.continuation)
        else:
            value = world.decoded(mail.schema, world.document(mail))
        return value if arm is None else {"$tag": arm, "$value": value}

    def receipt(self) -> Came | None:
        """The settled effect of a receipt; None for everything else."""
        came = self.mail.continuation
        if came is None or self.mail.schema != envelopes.RECEIPT:
            return None
        opened, _, waiter, settled = came
        assert isinstance(settled, ReceiptSettled), "the schema says so"
        payload = settled.payload
        if payload is None:
            payload = self.world.payload(settled)
        fields = (opened.effect, settled.status, payload, waiter[1], opened.intent)
        return make(Came, fields)


class Surroundings:
    """The context of a tick; its document is built when a lane asks for all of it.

    It reads the world as the tick finds it, and nothing changes a world while a tick runs.
    """

    __slots__ = ("_cell", "_mail", "_turn", "_world", "now_ns")

    def __init__(self, turn: Turn) -> None:
        world, _, cell, mail, _, _ = turn
        self._turn = turn
        self._world = world
        self._cell = cell
        self._mail = mail
        self.now_ns = world.logical_ns + 1

    @property
    def world(self) -> str:
        """The id of the world."""
        return self._world.id

    def entropy(self) -> bytes:
        """The chance of this tick, and so the parent of all that it causes."""
        return entropy_of(self._cell.id, self._mail)

    def lot(self) -> int:
        """A number under 256, the same for the same delivery."""
        # Chance spreads it over inputs, the odd factor over deliveries that share their chance.
        mail = self._mail
        return (mail.parent[0] + mail.seq * 37 + mail.index) & 0xFF

    def document(self) -> bytes:
        """All of it as `sys/WorkflowContext@1`."""
        world, workflow, cell, mail, catalogue, newer = self._turn
        document = world.document(mail)
        digest = mail.event_hash or event_hash(mail.schema, document, None)
        version = cell.state_version if newer is None else newer.version
        if cell.state_hash is None:
            version = workflow.state_version  # what it begins with is of today's
        return envelopes.context_document(
            envelopes.Context(
                now_ns=max(mail.now_ns, 0),
                logical_now_ns=self.now_ns,
                journal_height=world.seq,
                entropy=self.entropy(),
                event_hash=canon.text_of(digest),
                manifest_hash=catalogue.hash_text,
                workflow=workflow.name,
                workflow_hash=workflow.hash_text,
                key=cell.id.key or None,
                cell_mode=workflow.key is not None,
                world=world.id,
                event_seq=mail.seq,
                state_version=version,
            )
        )
