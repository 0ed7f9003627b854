"""Nouns and pure rules: what a principal, a connection, a permit, a session and a policy *are*.

Nothing here knows a clock, a socket, a file or an environment variable: time comes in as a
parameter, and everything else is computed from values. Every other room may import this one.
"""
