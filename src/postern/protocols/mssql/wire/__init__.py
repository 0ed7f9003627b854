"""The steady state of links: `mssql_wire` is the entry. Without I/O, compiled."""
