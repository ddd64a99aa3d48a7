"""Bridges: what a node tells other systems, when somebody asks for it.

Owns the OpenTelemetry exporter (`otel`, `otlp`).
May import everything up to `node`.
Refuses to change anything: a bridge reads durable frames and figures, and a far end that is away
costs spans, never an event.
"""
