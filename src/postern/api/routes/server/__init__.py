"""Routes about this server, its events and its reports."""
