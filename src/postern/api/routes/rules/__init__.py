"""Routes about rules for access, statements and output."""
