"""MongoDB, wire protocol versions 9 (server 4.4) and later.

`spec` is the entry of the registry. `wire`, `login`, `recorded` and `queries` turn bytes into values; `dialect` and
`lineage` analyse commands. `mongodb_listener` is the gateway's side, `mongodb_target` the agent's.
"""
