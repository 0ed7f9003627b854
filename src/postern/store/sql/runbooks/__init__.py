"""Stores of repositories, rules and schedules of runbooks, and issue templates."""
