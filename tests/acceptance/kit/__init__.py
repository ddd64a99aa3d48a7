"""The kit of the acceptance tests: a node in a process, a sink, a load, a ledger, a report."""
