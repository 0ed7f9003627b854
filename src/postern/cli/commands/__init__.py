"""Modules of commands: one for each command or family of commands, imported only when it runs."""
