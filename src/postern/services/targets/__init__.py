"""Connections and agents, and their dependants."""
