"""Clients before their session: listeners, logins and tunnels."""
