"""Tests of the node room."""
