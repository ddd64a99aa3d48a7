"""Catalogues that were loaded already, by the digest of their manifest.

A manifest fixes every definition by hash, so a catalogue is a function of that digest and may be
shared by all worlds of a node.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from tallystick.kernel.index import Blobs
from tallystick.kernel.leaves import read_blob
from tallystick.model.catalogue import Catalogue
from tallystick.values import canon

KEPT_MAX: Final = 64


class Catalogues:
    """A bounded memory of catalogues."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Catalogue] = OrderedDict()

    def load(self, manifest: bytes, blobs: Blobs) -> Catalogue:
        """The definitions of a manifest, active now or once (I28)."""
        known = self._kept.get(manifest)
        if known is not None:
            return known

        def node(text: str) -> Any:
            return canon.decode(read_blob(blobs, canon.raw_of(text)))

        made = Catalogue.load(canon.decode(read_blob(blobs, manifest)), node)
        self._kept[manifest] = made
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return made
