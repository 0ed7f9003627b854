"""The agent: dials a target for a permit, resolves its secrets and logs in to it."""
