"""The command line, a client like any other."""
