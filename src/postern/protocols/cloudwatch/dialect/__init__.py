"""The operations of CloudWatch as statements: their effects, the log groups that they touch, and lineage."""
