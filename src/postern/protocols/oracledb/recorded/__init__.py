"""Readers of recorded bytes: as text, as tables, and answer by answer."""
