"""PostgreSQL's statements as rules judge them, read by its own parser (libpg_query, by `postgast`; decision 0033)."""
