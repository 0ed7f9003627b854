"""Connections, agents, and facts about targets."""
