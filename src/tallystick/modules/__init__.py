"""Modules: how module code runs.

Owns: the runners behind the tick ABI of `model.abi`.
May import: `model`, `values`, `errors`.
Refuses: to let an exception of module code out; every failure is a fault with a code.
"""
