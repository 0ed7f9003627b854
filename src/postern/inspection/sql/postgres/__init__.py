"""PostgreSQL's own parser as trees (libpg_query, by `postgast`; decision 0033): its dialect and masking read them."""
