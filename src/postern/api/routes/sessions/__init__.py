"""Routes about sessions, scripts and recordings."""
