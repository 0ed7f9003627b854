"""One module for each command or family of commands, imported only when it runs."""
