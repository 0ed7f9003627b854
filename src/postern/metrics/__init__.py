"""Metrics for operators: each process counts for itself and exports its numbers on a local socket.

Only the API imports the library that writes Prometheus's format, on the first request: it costs 70 ms and 3 MB.
"""
