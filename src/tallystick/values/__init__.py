"""Values: names, canonical bytes, shapes, seals and expressions.

Owns: the one canonical encoding, the schema language, seals, and the bounded evaluator.
May import: `errors`; `seal` also PyNaCl, `expr` the parser of Jinja2, `yaml12` that of PyYAML.
Refuses: any value that is not canonical or does not fit; it never repairs.
"""
