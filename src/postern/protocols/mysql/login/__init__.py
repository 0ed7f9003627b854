"""Both logins: of a client at the gateway, and of the gateway at a target."""
