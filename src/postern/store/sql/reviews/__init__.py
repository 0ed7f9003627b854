"""Reviews and their rules, in the store."""
