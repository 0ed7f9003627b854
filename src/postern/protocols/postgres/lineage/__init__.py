"""Column lineage of PostgreSQL's statements, over `inspection.lineage` (decision 0037)."""
