"""Reactions: watched directories, triggers, pure decisions, runs, and who wrote which bytes.

Owns: the tree of a workspace and its ids, globs and ignore rules, the reaction file, triggers,
guards, decisions, runs, stamps and the built-in workflows over them; and the watcher, which is the
half that looks at a disk.
May import: `model`, `values`, `errors`; PyYAML as a scanner of events only.
Refuses: the kernel, the journal and the node; clock, chance, disk and wire in all but `scan` and
`watch`, which get them handed in; a write to a workspace: that is the file executor's alone.
"""
