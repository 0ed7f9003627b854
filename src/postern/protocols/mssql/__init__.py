"""SQL Server: TDS 7.1 to 8.0 (MS-TDS, "Tabular Data Stream Protocol").

`spec` is the entry of the registry. `wire`, `login`, `recorded` and `queries` turn bytes into values; `dialect` and
`lineage` analyse statements. `mssql_listener` and `mssql_row_counts` are the gateway's side, `mssql_target` the
agent's.
"""
