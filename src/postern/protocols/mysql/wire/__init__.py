"""The steady state of links: `mysql_wire` is the entry; sans-IO, compiled."""
