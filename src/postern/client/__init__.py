"""The typed client of Postern's own HTTP API: what the CLI, agents and end-to-end tests speak through."""
