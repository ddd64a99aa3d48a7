"""Leaves and branches."""


def leaves(branch: list[object]) -> int:
    """How many leaves a branch has."""
    return sum(leaves(part) if isinstance(part, list) else 1 for part in branch)
