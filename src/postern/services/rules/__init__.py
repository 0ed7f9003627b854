"""Rules about access, statements and answers."""
