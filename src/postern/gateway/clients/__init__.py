"""Clients on their way in: listeners, logins and tunnels."""
