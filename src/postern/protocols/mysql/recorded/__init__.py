"""Recorded bytes as text, as tables, and answer by answer."""
