"""Origins of values in responses."""
