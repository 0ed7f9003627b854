"""Requests as statements of rules."""
