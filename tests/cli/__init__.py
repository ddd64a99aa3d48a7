"""Tests of the command line: as people run it."""
