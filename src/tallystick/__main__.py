"""`python -m tallystick` is `tally`."""

from tallystick.cli.main import main

main()
