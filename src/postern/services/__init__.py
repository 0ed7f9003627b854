"""Use cases, one file each. Here is decided who may do what; nothing here knows HTTP or SQL."""
