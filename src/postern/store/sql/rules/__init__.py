"""Rules about access, statements and answers, in the store."""
