"""Streams between CLI, gateway and agent: TLS certificates and WebSocket connections."""
