"""The gateway's own statements: scripts of `exec`, and catalogue queries."""
