"""Commands about sessions and recordings."""
