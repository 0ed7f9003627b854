"""Users and programs, their auth methods, and their organisations."""
