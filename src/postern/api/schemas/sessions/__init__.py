"""Bodies about sessions and recordings."""
