"""Lineage: which stored fields the fields of an answer come from."""
