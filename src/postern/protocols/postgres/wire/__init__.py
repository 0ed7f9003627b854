"""The steady state of links: `postgres_wire` is the entry. Without I/O, compiled."""
