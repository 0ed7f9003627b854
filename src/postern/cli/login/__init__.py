"""Profiles, and how a person logs in from a terminal."""
