"""MySQL and MariaDB, client/server protocol version 10 (MySQL source documentation, "Client/Server Protocol"; MariaDB
knowledge base, "Client/Server Protocol").

`greetings` and `messages` hold what is sent, `login` runs both handshakes, `wire` the steady state, `rows` and `values`
the cells of results.
"""
