"""Readers of recordings: text, tables, answers."""
