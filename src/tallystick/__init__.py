"""Tallystick: a workflow runtime for people who must be able to prove what happened."""

__version__ = "0.1.0"

__all__ = ["__version__"]
