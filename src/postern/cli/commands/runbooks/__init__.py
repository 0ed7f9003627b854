"""Commands that run scripts and runbooks."""
