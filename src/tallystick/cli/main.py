"""The command `tally`."""

from __future__ import annotations

import json
import sys

import click

from tallystick import __version__
from tallystick.cli.demo import demo
from tallystick.errors import TallyError


@click.group()
@click.version_option(__version__, prog_name="tally")
def tally() -> None:
    """Workflows that can prove what happened."""


tally.add_command(demo)


def main() -> None:
    """Run the command line; an error of ours ends with its own exit code."""
    try:
        tally.main(standalone_mode=False)
    except click.ClickException as why:
        why.show()
        raise SystemExit(2) from why
    except click.Abort as why:
        raise SystemExit(1) from why
    except TallyError as why:
        if "--json" in sys.argv:
            click.echo(json.dumps(why.problem(), default=str), err=True)
        else:
            click.echo(f"{why.code}: {why.message}", err=True)
            if why.hint:
                click.echo(f"hint: {why.hint}", err=True)
        raise SystemExit(why.exit_code) from why


if __name__ == "__main__":
    main()
