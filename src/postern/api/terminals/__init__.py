"""Terminals in browsers: a WebSocket on one side, a stream of a tunnel to a relay worker on the other."""
