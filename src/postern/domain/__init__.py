"""The domain: nouns such as principal, connection, permit, session and policy, and pure rules about them.

Nothing here knows a clock, a socket, a file or an environment variable: time comes in as a parameter, and everything
else is computed from values. Every other room may import this one.
"""
