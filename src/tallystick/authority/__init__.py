"""Authority: pure judgements about what a cell may ask for.

Owns: capabilities with their enforcers and attenuation, and policy rules.
May import: `model`, `values`, `errors`.
Refuses: ambient authority; what no grant and no rule allows is denied with its reason.
"""
