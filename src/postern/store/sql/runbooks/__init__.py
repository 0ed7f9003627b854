"""Repositories, rules and schedules of runbooks, and issue templates, in the store."""
