"""Bodies about rules for access, statements and output."""
