"""Commands about logins, keys and access."""
