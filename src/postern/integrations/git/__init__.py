"""Repositories of runbooks, read and written by dulwich in a child process that is ended when it takes too much."""
