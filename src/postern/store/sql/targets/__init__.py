"""Connections, agents and what is known of targets, in the store."""
