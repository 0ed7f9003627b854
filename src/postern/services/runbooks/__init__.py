"""Runbooks: their repositories, rules, runs and schedules."""
