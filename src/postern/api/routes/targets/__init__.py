"""Routes about connections and agents."""
