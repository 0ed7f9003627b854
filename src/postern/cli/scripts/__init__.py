"""Scripts and runbooks that a command runs, and their results."""
