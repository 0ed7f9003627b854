"""The typed client of Postern's own HTTP API and control service, for the CLI, agents and end-to-end tests."""

import postern.transport.control  # noqa: F401 - sets gRPC up before client_control.py imports it
