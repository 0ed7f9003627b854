"""The steady state of links: `mysql_wire` is the entry. Without I/O, compiled."""
