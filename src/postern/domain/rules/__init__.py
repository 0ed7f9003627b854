"""Who may use a connection, what a statement may do, and what of an answer is hidden."""
