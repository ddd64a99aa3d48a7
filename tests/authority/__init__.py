"""Tests of the authority room: values in, judgements out."""
