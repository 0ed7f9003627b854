"""How users and programs prove their identity."""
