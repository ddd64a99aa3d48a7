"""Playbooks: nets written in YAML, as one more kind of workflow.

Owns: reading and judging a playbook, the net of tokens, the pipelines of tasks, the built-in
workflow that plays one execution per cell.
May import: `model`, `values`, `errors`; PyYAML as a scanner of events only.
Refuses: clock, chance, disk, wire; the kernel; a guess where a file or an expression is wrong.
"""
