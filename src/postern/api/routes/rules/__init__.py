"""Routes about rules for access, statements and answers."""
