"""Views: what a world looks like to a reader.

Owns: the shapes of answers about cells, effects, the journal, causes, graphs and waiting.
May import: `kernel` for live state, `model`, `values`, `errors`.
Refuses: every change of a world; clock, chance, disk and wire; lists without a bound.
"""
