"""K1, K2, K3, K5 and L1, in one process on one path, so that their ratios are of one moment.

K1 drives submit, advance and accept over the memory journal in groups of 256 frames: schema,
routing, admission, capability, policy, index, records, chain; seals are checked off this thread
(11 section 4, rule 4), so a receipt comes with its verdict.
K2 folds the journal of K1, K3 runs all of it again.
L1 is the floor: encode and hash the very frames of K1, and commit them to SQLite in the same
groups, synchronous=FULL; nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import codec, counter
from bench.floor import GROUP, WINDOW, limit
from bench.windows import Stopwatch, Timed, watched

from tallystick.journal.base import Append
from tallystick.kernel import tick
from tallystick.kernel.draft import Frame
from tallystick.kernel.inputs import Receipt, Sample, Settle, Submit
from tallystick.kernel.machine import accept, advance, submit
from tallystick.kernel.replay import fold_frames, open_world, verify
from tallystick.kernel.roots import root
from tallystick.model.frames import Sealed, open_frame
from tallystick.node.host import calm_collector
from tallystick.values import canon
from tallystick.values.schema import compile_schema
from tests import worlds
from tests.rig import NODE, START_NS, Rig

SAMPLE = Sample(START_NS, bytes(64))
SEAL = {"alg": "ed25519", "key": NODE.key_id, "sig": bytes(64)}
PAID = canon.encode({"ref": "x"})


class Loop:
    """A world, and its frames on their way to the journal in groups."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.world = rig.world
        self._frames: list[Sealed] = []

    def take(self, frame: Frame | None) -> Frame:
        """Fold a decided frame and stage it; a full group goes to the journal."""
        assert frame is not None, "there is a tick to run"
        sealed = accept(self.world, frame)
        assert sealed is not None, "every frame of this loop has records"
        self._frames.append(sealed)
        if len(self._frames) >= GROUP:
            self.flush()
        return frame

    def flush(self) -> None:
        """One append for the group; its blobs are durable with it."""
        driver = self.rig.driver
        blobs = driver.blobs.taken(len(self._frames), whole=False)
        (head,) = driver.journal.append(Append(self.world.id, self._frames, driver.head, blobs))
        driver.blobs.forget(blobs)
        driver.head = head  # type: ignore[assignment]  # there is no other writer
        self._frames = []


def order(loop: Loop, number: int) -> int:
    """Create, tick and charge, receipt, tick: two ticks."""
    world = loop.world
    loop.take(submit(world, Submit(SAMPLE, worlds.CREATED, worlds.created(f"o-{number}"))))
    intent = loop.take(advance(world)).opened[0]
    opened = world.intents.get(intent)
    assert opened is not None, "what was opened is open"
    record = opened.record
    receipt = Receipt(
        world.id, intent, record.effect, "ok", PAID, record.executor, 1, 1, 2, None, SEAL
    )
    loop.take(submit(world, Settle(SAMPLE, receipt, seal_ok=True)))
    loop.take(advance(world))
    return 2


def added(loop: Loop, number: int) -> int:
    """One event to one of a thousand counters: one tick."""
    value = {"name": f"c-{number % 1000}", "by": 1}
    loop.take(submit(loop.world, Submit(SAMPLE, counter.ADDED, value)))
    loop.take(advance(loop.world))
    return 1


def k1(rig: Rig, deed: Callable[[Loop, int], int], times: int) -> Timed:
    """Ticks of a workload."""
    loop = Loop(rig)
    watch = Stopwatch(WINDOW)
    for number in range(times):
        watch.add(deed(loop, number))
    loop.flush()
    return watch.stop()


def counts(frames: list[Sealed]) -> list[int]:
    """Records of each frame."""
    return [frame.last - frame.seq + 1 for frame in frames]


def k2(rig: Rig, frames: list[Sealed]) -> Timed:
    """Records folded on open; the world that comes out is the live one."""
    world = open_world(rig.world.id, [], rig.driver.blobs, rig.runner)
    watch = Stopwatch(WINDOW * 3)
    fold_frames(world, watched(frames, watch, counts(frames)))
    timed = watch.stop()
    assert root(world) == rig.root(), "the fold and the live world are one"
    return timed


def ticked(frames: list[Sealed]) -> list[int]:
    """1 for each frame that holds a tick."""
    return [int(type(open_frame(f.body)[3][0]).__name__ == "Ticked") for f in frames]


def k3(rig: Rig, frames: list[Sealed]) -> Timed:
    """Ticks run again and compared."""
    world = open_world(rig.world.id, [], rig.driver.blobs, rig.runner)
    units = ticked(frames)
    watch = Stopwatch(WINDOW)
    verified = verify(world, watched(frames, watch, units))
    timed = watch.stop()
    assert verified.first is None, f"diverged: {verified.first}"
    assert verified.ticks == sum(units)
    return timed


SHAPE = {
    "record": {
        "$type": {"text": {}},
        "seq": {"nat": {}},
        "at_ns": {"nat": {}},
        "workflow": {"text": {}},
        "key": {"bytes": {}},
        "cell": {"record": {"born_seq": {"nat": {}}, "status": {"text": {}}}},
        "event": {"bytes": {}},
        "state": {"bytes": {}},
        "effects": {"list": {"record": {"effect": {"text": {}}, "index": {"nat": {}}}}},
        "ok": {"bool": {}},
        "code": {"option": {"text": {}}},
    }
}


def k5() -> dict[str, Any]:
    """The codec on the 269-byte record, and its schema: admit and strict read."""
    shape = {"record": {name.strip("$"): type_ for name, type_ in SHAPE["record"].items()}}
    schema = compile_schema("t/K5@1", shape, {}.__getitem__)
    value = {name.strip("$"): each for name, each in codec.record().items()}
    data = schema.admit(value).bytes
    admit = codec.best_ns(lambda: schema.admit(value))
    read = codec.best_ns(lambda: schema.read(data))
    figures = codec.measure()
    base = figures["sha256_ns"]
    figures |= {"admit_ns": round(admit), "read_ns": round(read)}
    return figures | {"admit": round(admit / base, 1), "read": round(read / base, 1)}


def measure(times: int) -> dict[str, Any]:
    """All figures of this process; `times` orders, as many counter events."""
    calm_collector()  # as a node has it
    rig = Rig(worlds.order_documents(), worlds.FUNCTIONS)
    small = Rig(counter.documents(), counter.FUNCTIONS)
    k1(Rig(worlds.order_documents(), worlds.FUNCTIONS), order, min(100, times))  # warm
    k1_order = k1(rig, order, times)
    frames = list(rig.journal.read(rig.world.id))
    with tempfile.TemporaryDirectory() as folder:
        floor = limit(frames, Path(folder), ticked(frames))
    k1_counter = k1(small, added, times)
    return {
        "path": "pure" if str(tick.__file__).endswith(".py") else "compiled",
        "bytes_per_tick": round(sum(len(f.body) for f in frames) / (2 * times)),
        "l1": floor.report(),
        "k1_order": k1_order.report(),
        "k1_counter": k1_counter.report(),
        "k2": k2(rig, frames).report(),
        "k3": k3(rig, frames).report(),
        "k5": k5(),
    }


def main() -> int:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description="kernel benchmarks on one path")
    parser.add_argument("--times", type=int, default=4000)
    print(json.dumps(measure(parser.parse_args().times)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
