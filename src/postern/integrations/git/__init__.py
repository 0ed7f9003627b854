"""Git repositories of runbooks, read and written by dulwich in a child process with resource limits."""
