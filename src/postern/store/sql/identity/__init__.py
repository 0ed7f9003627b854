"""People and programs, what they log in with, and their organisations, in the store."""
