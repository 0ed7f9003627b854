"""CloudWatch of AWS: Logs (with Insights and live tail) and metrics, both over HTTP.

    client ─ AWS JSON, CBOR or query/XML ─▶ `wire` (a dialect of HTTP) ─▶ agent, which signs ─▶ logs.…, monitoring.…

`dialect` says what an operation does, and where the columns of its answer come from. `queries` is what the gateway
itself asks: scripts and the catalogue. `recorded` reads recordings.
"""
