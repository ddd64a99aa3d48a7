"""The world: what a journal folds to.

A world is one journal and one single-threaded machine.
Everything in it that a root covers lives in stores (`store`), so that a million parked cells cost
the index and not memory.
Nothing here decides; `fold` is the only writer.
"""

# tidy: everything that a world holds and how it is read stands on one page.
from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final, NamedTuple

from tallystick.errors import SchemaMismatch
from tallystick.kernel import continuation, leaves
from tallystick.kernel.active import Active, activate
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.index import EMPTY, Blobs, Nodes
from tallystick.kernel.levels import Levels
from tallystick.kernel.parts import Cell, Continuation, Fence, Intent, Keyed, Mail
from tallystick.kernel.proposals import Proposals
from tallystick.kernel.store import Calendar, Store
from tallystick.model import envelopes
from tallystick.model.abi import Runner
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import CellId, child_entropy
from tallystick.model.frames import GENESIS
from tallystick.model.records import IntentDenied, ProgressNoted, ReceiptSettled, Stamp
from tallystick.values import canon

RECENT_MAX: Final = 65_536


class Settings(NamedTuple):
    """What a node may choose; none of it can change a root."""

    cell_cache: int = 4096
    node_cache: int = 14 * 1024 * 1024  # bytes of branches: all of 80,000 cells, the upper of more
    resident_bytes_max: int = 256 * 1024 * 1024
    catalogues: Catalogues | None = None  # shared by the worlds of a node; else one per world


class Trust(NamedTuple):
    """A public key and what its seals count for; `*` stands for all."""

    public_key: bytes
    executors: tuple[str, ...]
    effects: tuple[str, ...]
    revoked: bool = False

    def counts_for(self, executor: str, effect: str) -> bool:
        """True when a receipt of this executor for this effect may carry the key's seal."""
        if self.revoked:
            return False
        for_executor = "*" in self.executors or executor in self.executors
        return for_executor and ("*" in self.effects or effect in self.effects)


Cause = tuple[CellId, Mail, bool]
"""The delivery whose frame is being folded; what it emits inherits from it (D4).

The last says that it ended or deleted its cell, so nothing it asked for may wake the cell.
"""


def entropy_of(cell: CellId, mail: Mail) -> bytes:
    """The entropy of a tick, and so the parent of all that it causes."""
    return child_entropy(mail.parent, cell, mail.seq, mail.index)


class World:
    """The live head of one world."""

    __slots__ = (
        "_catalogues", "active", "blobs", "cause", "cell_count", "cells", "denied", "drops",
        "expiry", "fence", "framed_seq", "frozen", "head", "id", "intents", "keyed", "keys",
        "levels", "logical_ns", "manifest", "nodes", "now_ns", "pinned", "proposals", "proved_seq",
        "read_only", "recent", "resident", "resident_bytes", "revoked", "ring", "runner", "seq",
        "settings", "stamp", "suppressed", "synthetic", "timers", "unclean", "upgraded_seq",
    )  # fmt: skip

    # tidy: everything that a world holds, named once.
    def __init__(
        self, world_id: str, blobs: Blobs, runner: Runner, settings: Settings | None = None
    ) -> None:
        self.id = world_id
        self.blobs = blobs
        self.runner = runner
        self.settings = settings or Settings()
        self.nodes = Nodes(blobs, self.settings.node_cache)
        self.seq = 0
        self.logical_ns = 0
        self.now_ns = 0
        self.head = GENESIS
        self.read_only = False
        self.manifest = EMPTY
        # Where the manifest last changed, and where it last did so by proof; 0 before it has.
        self.upgraded_seq = 0
        self.proved_seq = 0
        self.pinned = 0
        self.synthetic = False  # a what-if: nothing it asks for leaves it
        # A world has a manifest from its first frame on; nothing is asked of it before.
        self.active: Active
        self._catalogues = self.settings.catalogues or Catalogues()
        self.cells: dict[str, Store[Cell]] = {}
        self.cell_count = 0
        self.mount({})
        self.keys: dict[str, Trust] = {}
        self.revoked: dict[str, str] = {}
        self.levels = Levels()
        self.proposals = Proposals()
        self.frozen = False  # its name means another world now: no events, no ticks, no effects
        self.ring: deque[CellId] = deque()
        # Beside the state: evidence counters and what settled lately (03 section 9).
        self.drops: dict[bytes, dict[str, int]] = {}
        self.suppressed: dict[str, int] = {}
        self.recent: OrderedDict[bytes, str] = OrderedDict()
        # Within one frame: where it begins, the tick being folded, denials whose receipts follow.
        self.framed_seq = 0
        self.cause: Cause | None = None
        self.stamp: Stamp | None = None
        self.denied: deque[IntentDenied] = deque()
        # The sizes of dirty states in memory, oldest first, so that spilling needs no search.
        self.resident: dict[CellId, int] = {}
        self.resident_bytes = 0
        self.unclean = False  # the stores still hold what the last snapshot has made clean

    def mount(self, tops: dict[str, bytes]) -> None:
        """Point every store at the index of a snapshot; missing ones are empty."""
        nodes = self.nodes

        def top(name: str) -> bytes:
            return tops.get(name, EMPTY)

        self.intents: Store[Intent] = Store(
            nodes, leaves.put_intent, leaves.load_intent, top=top("intents")
        )
        self.keyed: Store[Keyed] = Store(
            nodes, leaves.put_keyed, leaves.load_keyed, top=top("keyed")
        )
        self.fence: Store[Fence] = Store(
            nodes, leaves.put_fence, leaves.load_fence, top=top("fence")
        )
        self.timers = Calendar(nodes, top("timers"))
        self.expiry = Calendar(nodes, top("expiry"))
        self.cells = {
            name[5:]: self._cell_store(name[5:], top(name))
            for name in tops
            if name.startswith("cell:")
        }

    def rehouse(self, blobs: Blobs) -> None:
        """Read and stage blobs elsewhere from here on: a fork writes into its own store."""
        self.blobs = blobs
        self.nodes.rehouse(blobs)

    def freeze(self, *, frozen: bool) -> None:
        """Stop taking events and working, or begin again."""
        self.frozen = self.read_only = frozen

    # ---- definitions ------------------------------------------------------------------------

    def activate(self, manifest: bytes) -> None:
        """Make a manifest the active one; its definitions are in the blob store."""
        self.active = activate(self._catalogues.load(manifest, self.blobs))
        self.manifest = manifest

    def catalogue(self, manifest: bytes) -> Catalogue:
        """The definitions of a manifest, active now or once."""
        if manifest == self.manifest:
            return self.active.catalogue
        return self._catalogues.load(manifest, self.blobs)

    def workflow(self, name: str) -> Workflow:
        """An active workflow; delivery has made sure that it exists."""
        return self.active.catalogue.workflows[name]

    # ---- cells ------------------------------------------------------------------------------

    def cells_of(self, workflow: str) -> Store[Cell]:
        """The store of a workflow's cells."""
        store = self.cells.get(workflow)
        if store is None:
            store = self.cells[workflow] = self._cell_store(workflow, EMPTY)
        return store

    def _cell_store(self, workflow: str, top: bytes) -> Store[Cell]:
        def put(cell: Cell, beside: dict[bytes, bytes]) -> bytes:
            return leaves.put_cell(cell, beside, self.document, self.blobs)

        def load(value: bytes) -> Cell:
            return leaves.load_cell(workflow, value, self.blobs)

        return Store(
            self.nodes,
            put,
            load,
            top=top,
            cache=self.settings.cell_cache,
            path_of=canon.digest_of,
            filtered=True,
        )

    def cell(self, ident: tuple[str, bytes]) -> Cell | None:
        """A cell for reading, by its id or the two parts of it."""
        store = self.cells.get(ident[0])
        return None if store is None else store.get(ident[1])

    def edit_cell(self, workflow: str, key: bytes) -> Cell | None:
        """A cell for `fold` to change."""
        store = self.cells.get(workflow)
        return None if store is None else store.edit(key)

    def state_of(self, cell: Cell) -> bytes | None:
        """A cell's state bytes, from memory or from the blob store."""
        if cell.state_hash is None or cell.state is not None:
            return cell.state
        return leaves.read_blob(self.blobs, cell.state_hash)

    def stores(self) -> dict[str, Store[Any]]:
        """Every store by the name of its root."""
        named: dict[str, Store[Any]] = {
            "intents": self.intents,
            "keyed": self.keyed,
            "fence": self.fence,
            "timers": self.timers.store,
            "expiry": self.expiry.store,
        }
        for workflow in sorted(self.cells):
            named["cell:" + workflow] = self.cells[workflow]
        return named

    # ---- mail -------------------------------------------------------------------------------

    def document(self, mail: Mail) -> bytes:
        """The value of a mailbox entry, not yet wrapped as an arm."""
        if mail.value is not None:
            return mail.value
        if mail.value_hash is not None:
            return leaves.read_blob(self.blobs, mail.value_hash)
        came = mail.continuation
        assert came is not None, "an entry has a value or is a continuation"
        payload = self.payload(came.came)
        return continuation.document(came, mail.seq, self.catalogue(came.manifest), payload)

    def decoded(self, schema: str, document: bytes) -> Any:
        """A document as a fresh plain value; the reader of its schema is the faster decoder."""
        known = self.active.catalogue.schemas.get(schema)
        if known is not None:
            try:
                return known.plain(document)
            except SchemaMismatch:
                pass  # an upcast value is of a newer schema than the event that came
        return canon.decode(document)

    def continued(self, mail: Mail, came: Continuation) -> Any:
        """The plain value of a continuation."""
        payload = came.came.payload
        if payload is None:
            payload = self.payload(came.came)
        return continuation.plain(came, mail.seq, self.catalogue(came.manifest), payload)

    def payload(self, came: ReceiptSettled | ProgressNoted) -> bytes:
        """The payload of a receipt or a progress frame, from its record or the blob store."""
        if came.payload is not None:
            return came.payload
        assert isinstance(came, ReceiptSettled), "progress stands inline"
        assert came.payload_hash is not None, "a payload stands inline or by digest"
        return leaves.read_blob(self.blobs, came.payload_hash)

    def wrapped(self, mail: Mail) -> bytes:
        """The value of a mailbox entry as the workflow's own event."""
        document = self.document(mail)
        return document if mail.arm is None else envelopes.wrap(mail.arm, document)
