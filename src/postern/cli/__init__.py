"""The command line, which is a client of the API.

Exit codes, for scripts: 0 success, 1 failure, 2 wrong usage, 3 not logged in, 4 denied, 5 not found, 6 unavailable.
Results go to standard output, everything else to standard error.
"""
