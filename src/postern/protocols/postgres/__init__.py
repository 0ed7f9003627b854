"""PostgreSQL, frontend/backend protocol 3.0 and 3.2 (PostgreSQL manual, chapter "Frontend/Backend Protocol").

`login` runs both handshakes, `wire` the steady state, `rows` and `types` the cells of results,
`lens` turns recorded bytes into readable text, `script` runs a text as a client of its own.
"""
