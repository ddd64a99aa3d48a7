"""Defects of playbooks: routers and the final step."""

from __future__ import annotations

from tallystick.playbooks import ends, routes
from tallystick.playbooks.net import ROOT
from tests.simulation.planted.swap import swapped

_chosen = routes._chosen
_finish = ends._finish


def exclusive_fires_all():
    def chosen(play, run, name, event):
        router = play.plan.steps[run["step"]]["next"]
        was, router["mode"] = router["mode"], "inclusive"
        try:
            return _chosen(play, run, name, event)
        finally:
            router["mode"] = was

    return swapped((routes, "_chosen", chosen))


def final_step_twice():
    def finish(play):
        step = play.plan.spec["final_step"]
        if step is None or play.state["counts"]["step_runs"].get(step, 0) != 1:
            _finish(play)
            return
        play.net.token(step, ROOT, {"from": None, "run": None, "final": True})
        play.drain()

    return swapped((ends, "_finish", finish))


DEFECTS = {
    "exclusive fires all": exclusive_fires_all,
    "final_step twice": final_step_twice,
}
