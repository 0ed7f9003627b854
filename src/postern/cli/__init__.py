"""The command line, a client like any other.

Exit codes, for scripts: 0 it went well, 1 it failed, 2 wrong usage, 3 not logged in, 4 denied, 5 not found,
6 unavailable. Answers go to standard output, everything else to standard error.
"""
