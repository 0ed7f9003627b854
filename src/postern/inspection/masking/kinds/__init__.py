"""The kinds of information beyond the six that replace whole columns by short ways, by where they come from."""
