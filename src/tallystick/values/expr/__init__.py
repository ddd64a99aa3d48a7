"""The bounded expression language of guards, templates and policy rules (07 section 3, D12).

Owns: reading expressions with Jinja's syntax and evaluating them over plain values.
May import: `errors`; Jinja2, as a parser only.
Refuses: Python objects, clock, chance, unbounded work; an error is never "false".

The same source over equal values gives the same value, the same fault and the same list of
undefined paths, in a cell, in a worker and at replay.
"""

from tallystick.values.expr.expression import (
    Expression,
    Template,
    compile_expression,
    compile_template,
    shared_run,
)
from tallystick.values.expr.fault import ExpressionFault
from tallystick.values.expr.operate import truth
from tallystick.values.expr.run import Run

__all__ = [
    "Expression",
    "ExpressionFault",
    "Run",
    "Template",
    "compile_expression",
    "compile_template",
    "shared_run",
    "truth",
]
