"""How people and programs prove who they are."""
