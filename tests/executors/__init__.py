"""Tests of the executors room."""
