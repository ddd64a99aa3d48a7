"""The second world of the kit: a cell for each thing that somebody wants from the outside."""

from tallystick import Bundle, Ctx, File, Http, Nat, Record, Shell
from tallystick.workflow.outside import Secret

app = Bundle(
    "tools",
    definitions=[
        {
            "$kind": "defsecret",
            "name": "tools/key@1",
            "binding_id": "env:TOOLS_KEY",
            "allowed_caps": ["loop", "shell"],
        }
    ],
)


class Done(Record):
    status: str
    code: str
    said: str


class Fetch(Record):
    id: str
    url: str
    key: bool


@app.workflow(key={Fetch: "id"}, effects=[Http])
def fetcher(state: Done | None, event: Fetch | Http.Settled, ctx: Ctx) -> Done:
    match event:
        case Fetch(key=True):
            headers = {"x-key": Secret(alias="tools/key")}
            ctx.effect(Http(method="GET", url=event.url, headers=headers, redirects=3))
            return Done(status="asked", code="", said="")
        case Fetch():
            ctx.effect(Http(method="GET", url=event.url, redirects=3))
            return Done(status="asked", code="", said="")
        case Http.Ok(value=answer):
            return Done(status="ok", code="", said=f"{answer.body}")
        case _:
            return Done(status="failed", code=event.code, said=event.message)  # type: ignore[attr-defined]


class Keep(Record):
    id: str
    path: str
    text: str


@app.workflow(key={Keep: "id"}, effects=[File])
def keeper(state: Done | None, event: Keep | File.Settled, ctx: Ctx) -> Done:
    match event:
        case Keep():
            ctx.effect(File(workspace="project", path=event.path, content=event.text.encode()))
            return Done(status="asked", code="", said="")
        case File.Ok():
            return Done(status="ok", code="", said="")
        case _:
            return Done(status="failed", code=event.code, said=event.message)  # type: ignore[attr-defined]


class Run(Record):
    id: str
    argv: list[str]
    key: bool
    seconds: Nat


@app.workflow(key={Run: "id"}, effects=[Shell])
def runner(state: Done | None, event: Run | Shell.Settled, ctx: Ctx) -> Done:
    match event:
        case Run():
            env = {"TOOLS_KEY": Secret(alias="tools/key")}
            program = Shell(argv=event.argv, env=env if event.key else None)
            ctx.effect(program, timeout=f"{event.seconds}s")
            return Done(status="asked", code="", said="")
        case Shell.Ok(value=answer):
            return Done(status=f"exit {answer.exit_code}", code="", said=f"{answer.stdout}")
        case _:
            return Done(status="failed", code=event.code, said=event.message)  # type: ignore[attr-defined]


class Count(Record):
    id: str
    n: Nat


class Counted(Record):
    n: Nat
    ordered: bool


@app.workflow(key={Count: "id"})
def counter(state: Counted | None, event: Count, ctx: Ctx) -> Counted:
    """Count, and remember whether every number followed the one before."""
    if state is None:
        return Counted(n=event.n, ordered=event.n == 1)
    return Counted(n=event.n, ordered=state.ordered and event.n == state.n + 1)
