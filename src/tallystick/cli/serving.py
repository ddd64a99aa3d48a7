"""A node that serves: open, listen, wait for a reason to stop, drain, close."""

from __future__ import annotations

import asyncio
import sys
import threading
import webbrowser
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tallystick.api.app import make_app
from tallystick.api.serve import Listening, Signals, address_of
from tallystick.bridges.otel import Tracing
from tallystick.cli.following import follow, with_reactions
from tallystick.cli.here import modules_of
from tallystick.cli.journal import line
from tallystick.cli.sources import bundle_at, is_python, python_files, signature
from tallystick.errors import DiskFull, TallyError, UnknownName
from tallystick.kernel.inputs import Activate
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle
from tallystick.node.config import Config
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.views.journal import rows

IDLE_LOOK_S: Final = 0.2
WATCH_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve and how; `say(code, text, **more)` tells whoever watches."""

    config: Config
    world: str
    say: Callable[..., None]
    bundle: str | None = None
    insecure: bool = False
    until_idle: bool = False
    dev: bool = False
    browse: bool = False


def run(serving: Serving) -> dict[str, Any]:
    """Serve until a signal, idleness or an end of the journal; answers why it stopped.

    Raises what made it impossible to go on: `journal.sync_failed` ends with 3, damage with 4.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(serving))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The quicker loop when it is installed; None is the plain one."""
    try:
        import uvloop  # noqa: PLC0415  # the extra `fast`; the plain loop serves too
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


# tidy: the life of a node in a terminal, in its order.
async def _run(serving: Serving) -> dict[str, Any]:
    address = address_of(serving.config.http, insecure=serving.insecure)
    ends_s: float | None = None  # when a stop is over, by the clock of the loop
    with Signals() as signals:
        node = await _opened(serving)
        try:
            if serving.bundle is not None:
                if serving.dev:
                    await is_sound(serving, Path(serving.bundle))
                await take_up(node, serving, _bundle(serving, Path(serving.bundle)))
            listening = Listening(await make_app(node, scheme=address.scheme), address)
            await listening.start()
            serving.say("node.serving", f"serving {listening.url}", url=listening.url)
            node.log.say("info", "node.serving", listening.url)
            welcome(listening, serving)
            tracing = Tracing(node) if node.config.otel.endpoint else None
            if tracing is not None:
                tracing.start()
            try:
                why = await _until(node, serving, signals)
                ends_s = node.loop.time() + node.config.node.drain_s
                # Requests are still answered while the node drains, so that whoever waits for
                # an answer or brings a receipt gets through.
                listening.api.stopping.set()
                await _drain(node, signals)
            finally:
                await listening.stop(_share(node, ends_s))
                if tracing is not None:
                    await tracing.stop()
        finally:
            await close_node(node, 0, until_s=ends_s)
    failed = node.stopped.result()
    if failed is not None:
        raise failed
    serving.say("node.stopped", f"stopped: {why}")
    return {"url": listening.url, "stopped": why}


async def _opened(serving: Serving) -> Node:
    try:
        return await open_node(serving.config, modules_of(serving.config, check_all=serving.dev))
    except DiskFull as why:
        # Nobody is there who could recover by itself.
        raise DiskFull(why.message, hint="free space, then start the node again") from why


def welcome(listening: Listening, serving: Serving) -> None:
    """Tell the way in for a browser, and open it; without the UI's files there is none."""
    if not files("tallystick").joinpath("ui", "index.html").is_file():
        return
    code, _ = listening.api.sessions.code(listening.api.owner)
    link = f"{listening.url}/login#{code}"
    serving.say("node.login", f"open {link}", link=link)
    if serving.browse and sys.stderr.isatty():
        # A browser may take its time, and must not hold the node up.
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()


async def _until(node: Node, serving: Serving, signals: Signals) -> str:
    """The first reason to stop: a signal, a failed journal, or nothing left to do."""
    reasons: dict[str, Coroutine[Any, Any, Any]] = {
        "signal": signals.quiet.wait(),
        "failed": _failed(node),
    }
    if serving.until_idle:
        reasons["idle"] = _idle(node)
    if serving.dev:
        reasons["watch"] = _watch(node, serving)
        reasons["follow"] = follow(node, serving.world, serving.say)
        reasons["told"] = _tell(node, serving)
    tasks = {asyncio.ensure_future(each): name for name, each in reasons.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = next(iter(done))
        first.result()
        return tasks[first]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _failed(node: Node) -> None:
    await asyncio.shield(node.stopped)


async def _idle(node: Node) -> None:
    """Until no world has anything ready, running, open or due."""
    while True:
        resting = [await _resting(node, world) for world in node.worlds().values()]
        if all(resting):
            return
        await asyncio.sleep(IDLE_LOOK_S)


async def _resting(node: Node, world: str) -> bool:
    if not await node.quiet(world, 0):
        return False
    return await node.look(world, _nothing_open)


def _nothing_open(world: World) -> bool:
    return next(iter(world.intents.entries()), None) is None


def _share(node: Node, ends_s: float | None) -> float:
    """How long requests that are under way may take: half of what is left."""
    left = 2.0 if ends_s is None else ends_s - node.loop.time()
    return min(max(left / 2, 0.1), 1.0)


async def _drain(node: Node, signals: Signals) -> None:
    """Let running executors end; a second signal does not wait for them.

    A fifth of the time is kept for what comes after them: answers, the last commit, a snapshot.
    """
    node.stopping = True
    all_s = node.config.node.drain_s
    draining = asyncio.ensure_future(node.dispatch.drain(all_s * 0.8, all_s * 0.1))
    hurry = asyncio.ensure_future(signals.quick.wait())
    await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, hurry):
        task.cancel()
    await asyncio.gather(draining, hurry, return_exceptions=True)


async def _tell(node: Node, serving: Serving) -> None:
    """Say every record of the world as it becomes durable."""
    world = node.resolve(serving.world)
    after = await node.look(world, lambda live: live.seq)
    while True:
        async for item in node.feed.subscribe(world, after):
            after = item.seq if item.kind == "frame" else after
            for row in rows([item.body]) if item.kind == "frame" else ():
                serving.say("journal.row", line(row))
        # Too far behind: the next reading goes on from the journal.
        await asyncio.sleep(IDLE_LOOK_S)


# ---- bundles --------------------------------------------------------------------------------


def _bundle(serving: Serving, path: Path) -> Bundle:
    """What is served; a folder with reactions is developed together with them."""
    made = bundle_at(path)
    return with_reactions(path, made) if serving.dev else made


async def take_up(node: Node, serving: Serving, bundle: Bundle) -> bool:
    """Let the world run this bundle: make it, or activate the bundle if nothing is open.

    A served world is never changed by a start; only `dev` activates.
    """
    try:
        world = node.resolve(serving.world)
    except UnknownName:
        await node.create(serving.world, bundle)
        serving.say("world.created", f"world {serving.world} made from {bundle.root}")
        return True
    now = await node.look(world, _manifest)
    if now == bundle.manifest_digest:
        return True
    if not serving.dev:
        serving.say("world.other_manifest", f"world {serving.world} keeps the bundle it has")
        return False
    return await _activate(node, serving, (world, now, bundle))


async def _activate(node: Node, serving: Serving, change: tuple[str, bytes, Bundle]) -> bool:
    world, now, bundle = change
    given = Activate(
        node.clock.sample(),
        bundle.root_digest,
        bundle.manifest_digest,
        now,
        dict(bundle.blobs()),
        "dev",
    )
    answer = await node.one(world, given)
    if answer.kind == "refused":
        count = answer.detail["count"]
        serving.say(answer.detail["code"], f"not taken up yet: {count} blockers are open")
        return False
    serving.say("world.activated", f"world {serving.world} runs {bundle.root} now")
    return True


def _manifest(world: World) -> bytes:
    return world.manifest


async def is_sound(serving: Serving, path: Path) -> bool:
    """Tell what lint finds in Python sources; False when a finding is an error."""
    if not is_python(path):
        return True
    from tallystick.modules.lint import lint  # noqa: PLC0415  # loads the whole kit

    found = await asyncio.to_thread(lambda: lint(python_files(path)))
    for each in found:
        text = f"{each.path}:{each.line}: {each.code} {each.message} ({each.hint})"
        serving.say(f"lint.{each.code}", text)
    return not any(each.error for each in found)


async def _watch(node: Node, serving: Serving) -> None:
    """Take up every change of the sources; a wrong one is told and the old one goes on."""
    assert serving.bundle is not None, "dev has a path"
    path = Path(serving.bundle)
    seen = await asyncio.to_thread(signature, path)
    taken = True
    while True:
        await asyncio.sleep(WATCH_S)
        now = await asyncio.to_thread(signature, path)
        if now == seen and taken:
            continue
        try:
            bundle = await asyncio.to_thread(_bundle, serving, path)
            if now != seen and not await is_sound(serving, path):
                taken = True
            else:
                taken = await take_up(node, serving, bundle)
        except TallyError as why:
            if now != seen:
                serving.say(why.code, f"{why.code}: {why.message}", where=why.where)
            taken = True
        seen = now
