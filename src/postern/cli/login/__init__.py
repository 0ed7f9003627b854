"""Profiles, and logins from a terminal."""
