"""Stores of connections, agents and facts about targets."""
