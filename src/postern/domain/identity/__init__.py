"""People and programs, what they log in with, and the organisations that they belong to."""
