"""Requests of the gateway's own: scripts of `exec`, catalogue queries, row counts."""
