"""Stores of reviews and their rules."""
