"""Summarise a text with a model; the key is a secret, the progress is seen, the cost is bounded."""

from tallystick import Bundle, Ctx, Llm, Nat, Record
from tallystick.workflow.outside import Secret

app = Bundle(
    "summary",
    authority={
        "grants": [{"name": "llm", "cap": "sys/llm@1", "params": {"max_tokens": 200}}],
        "policies": ["summary/rules@1"],
        "flows": [{"name": "llm", "budget": {"name": "tokens", "cost": "{{ params.max_tokens }}"}}],
        "budgets": [{"name": "tokens", "unit": "tokens", "limit": 450}],
    },
    bindings={"summarise": {"llm": "llm"}},
    definitions=[
        {
            "$kind": "defpolicy",
            "name": "summary/rules@1",
            "rules": [{"id": "all", "when": {"effect": "sys/llm.generate@1"}, "decision": "allow"}],
        },
        {
            "$kind": "defsecret",
            "name": "llm/key@1",
            "binding_id": "env:LLM_KEY",
            "allowed_caps": ["llm"],
        },
    ],
)
MOST_TOKENS = 2000


class Text(Record):
    name: str
    text: str


class Summary(Record):
    name: str
    tokens: Nat = 0
    parts: Nat = 0
    text: str | None = None


class Summarised(Record):
    name: str
    text: str


@app.workflow(key="name", effects=[Llm])
def summarise(
    state: Summary | None, event: Text | Llm.Settled | Llm.Progress, ctx: Ctx
) -> Summary | None:
    match state, event:
        case None, Text(name=name, text=text) if len(text) // 4 > MOST_TOKENS:
            ctx.fail("summary.too_long", f"{len(text)} characters")
            return Summary(name=name)
        case None, Text(name=name, text=text):
            prompt = [{"role": "user", "content": "Summarise in one sentence:\n" + text}]
            request = Llm(
                provider="local",
                model="small",
                messages=prompt,
                max_tokens=200,
                api_key=Secret(alias="llm/key"),
            )
            ctx.effect(request, key="summarise", timeout="2m")
            return Summary(name=name)
        case Summary(), Llm.Progress():
            return state.replace(parts=state.parts + 1)
        case Summary(text=None), Llm.Ok(value=answer):
            found = answer.text or ""
            ctx.emit(Summarised(name=state.name, text=found))
            ctx.count("tokens", answer.usage["tokens"])
            ctx.complete(found)
            return state.replace(text=found, tokens=answer.usage["tokens"])
        case Summary(text=None), Llm.Failed(code=code):
            ctx.fail(code)
    return state
