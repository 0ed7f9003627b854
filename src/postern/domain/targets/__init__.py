"""Connections, agents, and what is known of targets."""
