"""A stand-in for the model: progress, an answer, a refusal; the key is never in the journal."""

from app import Llm, Summarised, Text, app, summarise
from tallystick.testing import TestWorld, error, ok

ANSWER = ok(
    {
        "text": "Short.",
        "output_ref": "sha256:" + "0" * 64,
        "finish": "stop",
        "usage": {"calls": 1, "tokens": 9, "cents": 0},
    }
)


def test_progress_then_an_answer():
    world = TestWorld(app).send(Text(name="t", text="long text"))
    world.progress(Llm, 1, "text", "Sh").progress(Llm, 2, "text", "ort.")
    assert world.cell(summarise, "t").state.parts == 2
    world.settle(Llm, ANSWER)
    assert world.events(Summarised) == [Summarised(name="t", text="Short.")]
    assert world.cell(summarise, "t").state.tokens == 9
    world.assert_replays()


def test_the_key_stays_outside():
    world = TestWorld(app).send(Text(name="t", text="long text"))
    (params,) = world.params(Llm)
    assert params.api_key == {"$tag": "secret", "$value": {"alias": "llm/key", "version": 1}}


def test_the_budget_is_set_aside():
    world = TestWorld(app)
    for name in ("a", "b", "c"):
        world.send(Text(name=name, text="long text"))
    assert world.cell(summarise, "c").status == "failed", "450 tokens, and 400 are set aside"
    assert len(world.params(Llm)) == 2
    world.assert_replays()


def test_too_long_asks_nobody():
    world = TestWorld(app).send(Text(name="t", text="x" * 10_000))
    assert world.cell(summarise, "t").status == "failed"
    assert world.params(Llm) == []
    world.assert_replays()


def test_the_model_refuses():
    world = TestWorld(app).send(Text(name="t", text="long")).settle(Llm, error("llm.refused"))
    assert world.cell(summarise, "t").status == "failed"
    world.assert_replays()
