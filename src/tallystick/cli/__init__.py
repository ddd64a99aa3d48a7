"""Cli: the command `tally`.

Owns: words on a terminal, exit codes, and `--json`.
May import: everything.
Refuses: to decide; it asks the rooms below and prints.
"""
