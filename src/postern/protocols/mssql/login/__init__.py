"""Both logins: a client's at the gateway, and the gateway's at a target."""
