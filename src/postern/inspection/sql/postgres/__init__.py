"""PostgreSQL's statements, read by its own parser (libpg_query, by `postgast`; decision 0033)."""
