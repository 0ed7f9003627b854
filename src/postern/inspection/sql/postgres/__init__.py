"""PostgreSQL's own parser (libpg_query, through `postgast`; decision 0033), for the dialect and for masking."""
