"""Analysis of the SQL dialect for rules: the parser, prepared statements, and the encodings of texts."""
