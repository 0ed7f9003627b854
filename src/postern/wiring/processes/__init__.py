"""How each process is put together."""
