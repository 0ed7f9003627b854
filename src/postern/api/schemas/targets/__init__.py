"""Bodies about connections and agents."""
