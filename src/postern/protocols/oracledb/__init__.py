"""Oracle Database for thin clients: TNS packets, and TTC calls within them.

`spec` is the entry of the registry. `wire`, `login`, `recorded` and `queries` turn bytes into values; `dialect` and
`lineage` analyse statements. `oracle_listener` is the gateway's side, `oracle_target` the agent's.
"""
