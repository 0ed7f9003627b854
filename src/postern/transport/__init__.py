"""Streams between CLI, gateway and agent: TLS material and WebSocket carriers."""
