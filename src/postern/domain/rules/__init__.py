"""Rules: access to connections, guard rails for statements, masking of output."""
