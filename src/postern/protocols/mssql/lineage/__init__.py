"""Column lineage of T-SQL, from sqlglot's tree (decision 0166)."""
