"""Values: names, canonical bytes, shapes, seals and expressions.

Owns: the one canonical encoding, the schema language, seals, and the bounded evaluator.
May import: `errors`; `seal` also PyNaCl, `expr` also the parser of Jinja2.
Refuses: any value that is not canonical or does not fit; it never repairs.
"""
