"""A typed client of our own API: the CLI and the end-to-end tests use it."""
