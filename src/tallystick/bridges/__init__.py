"""Bridges: what a node tells other systems, when its settings say so.

Owns: the OpenTelemetry exporter (`otel`, and its spelling in `otlp`).
May import: everything up to `node`; never `api`, `cli` or `testing`.
Refuses: to change anything, and to let a key or a value out; a far end that is away costs spans,
never an event.
"""
