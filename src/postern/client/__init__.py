"""The typed client of Postern's own HTTP API and control service: what the CLI, agents and end-to-end tests use."""

import postern.transport.control  # noqa: F401 - sets gRPC up before client_control.py imports it
