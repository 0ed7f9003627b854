"""PostgreSQL, frontend/backend protocol 3.0 and 3.2 (PostgreSQL manual, chapter "Frontend/Backend Protocol").

`spec` is the entry of the registry. `wire`, `login`, `recorded` and `queries` turn bytes into values; `dialect` and
`lineage` analyse statements. `postgres_listener` and `postgres_row_counts` are the gateway's side, `postgres_target`
the agent's.
"""
