"""Two defects that are found quickly, for a run in small."""

from tests.simulation.planted import DEFECTS as ALL

DEFECTS = {name: ALL[name] for name in ("ack before flush", "receipt routed by table")}
