"""Column lineage of MySQL and MariaDB, from sqlglot's tree (decision 0058)."""
