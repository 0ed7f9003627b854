"""MySQL and MariaDB, client/server protocol version 10 (MySQL source documentation, "Client/Server Protocol"; MariaDB
knowledge base, "Client/Server Protocol").

`spec` is the entry of the registry. `wire`, `login`, `recorded` and `queries` turn bytes into values; `dialect` and
`lineage` analyse statements. `mysql_listener` is the gateway's side, `mysql_target` the agent's.
"""
