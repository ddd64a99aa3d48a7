"""Executors: what performs an intent outside, once its frame is durable.

Owns: the protocol of an executor, the built-in ones, secrets and the scrubbing of their values.
May import: `governance`, `kernel`, `authority`, `model`, `values`, `errors`; never `node`.
Refuses: to reach what the grant of an intent does not name, and to let the value of a secret out
in any spelling.
"""
