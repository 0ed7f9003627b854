"""The steady state of links: `mongodb_wire` is the entry. Without I/O, compiled."""
