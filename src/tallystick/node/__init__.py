"""Node: the only room that knows both the pure kernel and the outside.

Owns: the driver, the clock, dispatch and the named crash points.
May import: everything below it.
Refuses: to let anything out before the frame that asks for it is durable.
"""
