"""The gateway's own commands: scripts of `exec`, and catalogue queries."""
