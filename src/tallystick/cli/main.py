"""The command `tally`: the table of commands as a tree of words, and how it ends."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tallystick import __version__
from tallystick.cli.call import Globals, LiveCall
from tallystick.cli.problem import of_file, problem_object
from tallystick.cli.table import NOUNS, VERBS
from tallystick.cli.verb import BAD, Verb
from tallystick.errors import Rejected, TallyError
from tallystick.node.path import path_in_use, way_to_compiled


def _globals() -> list[click.Parameter]:
    return [
        click.Option(["--data"], help="folder of the node's files (.tally)"),
        click.Option(["--url"], help="address of a node"),
        click.Option(["--token"], help="token for that node"),
        click.Option(["-w", "--world"], help="the world (main)"),
        click.Option(["--json"], is_flag=True, help="one JSON object on the output"),
        click.Option(["--quiet"], is_flag=True, help="say nothing but errors"),
    ]


def _options_of(context: click.Context, given: dict[str, Any]) -> Globals:
    own = {name: given.pop(name) for name in Globals.__slots__}
    held = context.find_object(Globals) or Globals()
    return held.over(own)


def _leaf(command: Verb) -> click.Command:
    """One row of the table as click knows it."""

    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:
        call = LiveCall(_options_of(context, given))
        try:
            done = command.run(call, given)
            if done.value is None:
                pass  # the command spoke while it worked
            elif call.options.json:
                call.print_json(done.value)
            else:
                command.show(call.console, done.value)
        finally:
            call.close()
        context.exit(done.code)

    name = command.words.rsplit(" ", 1)[-1]
    params = [*command.params, *_globals()]
    return click.Command(name, params=params, callback=run, help=command.says)


def _group(name: str, says: str) -> click.Group:
    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:
        context.obj = _options_of(context, given)

    return click.Group(name, params=_globals(), callback=run, help=says)


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Say which version this is and which path it runs; with `--json` also how to change that."""
    if not asked or context.resilient_parsing:
        return
    if "--json" in sys.argv:
        told = {"version": __version__, "path": path_in_use(), "compiled_by": way_to_compiled()}
        click.echo(json.dumps(told))
    else:
        click.echo(f"tally ({path_in_use()}), version {__version__}")
    context.exit()


def _tree() -> click.Group:
    root = _group("tally", "Workflows that can prove what happened.")
    root.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="the version, and whether the compiled path runs",
        )
    )
    groups = {name: _group(name, says) for name, says in NOUNS.items()}
    for command in VERBS:
        first, _, rest = command.words.partition(" ")
        (groups[first] if rest else root).add_command(_leaf(command))
    for group in groups.values():
        root.add_command(group)
    return root


tally = _tree()


def main() -> None:
    """Run the command line; an error of ours ends with its own exit code."""
    try:
        code = tally.main(standalone_mode=False)
    except click.ClickException as why:
        _misuse(why)
    except click.Abort as why:
        raise SystemExit(1) from why
    except TallyError as why:
        _tell(why)
        raise SystemExit(why.exit_code) from why
    except BrokenPipeError as why:
        # The reader of a pipe has enough; that is no error of ours.
        sys.stderr.close()
        raise SystemExit(0) from why
    except OSError as why:
        _untouched(why)
    else:
        if code:
            raise SystemExit(code)


def _untouched(why: OSError) -> None:
    """A file that cannot be read or written is told like every refusal; the rest is a bug."""
    told = of_file(why)
    if told is None:
        raise why
    _tell(told)
    raise SystemExit(told.exit_code) from why


def _misuse(why: click.ClickException) -> None:
    if "--json" in sys.argv:
        _tell(Rejected(why.format_message(), code="request.usage", hint="see --help"))
    else:
        why.show()
    raise SystemExit(BAD) from why


def _tell(why: TallyError) -> None:
    if "--json" in sys.argv:
        click.echo(json.dumps(problem_object(why), default=str), err=True)
        return
    place = f"{why.where['file']}:{why.where['line']}: " if _is_placed(why) else ""
    click.echo(f"{place}{why.code}: {why.message}", err=True)
    if why.hint:
        click.echo(f"hint: {why.hint}", err=True)


def _is_placed(why: TallyError) -> bool:
    """True for a refusal of source code that names its line."""
    return "file" in why.where and "line" in why.where


if __name__ == "__main__":
    main()
