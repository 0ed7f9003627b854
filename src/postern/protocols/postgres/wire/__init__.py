"""The steady state of links: `postgres_wire` is the entry; sans-IO, compiled."""
