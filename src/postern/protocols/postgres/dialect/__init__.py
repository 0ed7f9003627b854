"""Analysis of PostgreSQL's statements for rules, with PostgreSQL's own parser (libpg_query, by `postgast`; decision
0033)."""
