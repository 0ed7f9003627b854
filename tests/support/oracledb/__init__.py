"""A small Oracle Database server for tests: TNS, TTC and O5LOGON over SQLite.

No Oracle server can be installed where the tests run. This one accepts four independent clients, unmodified:
python-oracledb and node-oracledb in thin mode, JDBC thin and go-ora. Its codec shares no code with the product's, so
that each checks the other. `docs/decisions/0173-oracle-server-for-tests.md` says what it can and cannot show.

`running_server.py` starts it; `server_session.py` is the protocol, from bytes to bytes; `database.py` holds the data.
"""
