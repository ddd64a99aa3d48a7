"""pytest plugin: the clause marker."""
