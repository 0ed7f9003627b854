"""Connections, agents and what connections belong to."""
