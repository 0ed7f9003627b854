"""Stores of sessions: their rows, lists, search, and pending work."""
