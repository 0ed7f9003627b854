"""Kinds of information, by origin. Six of them have a fast path for whole columns."""
