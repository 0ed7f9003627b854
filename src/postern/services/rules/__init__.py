"""Rules about access, statements and output."""
