"""The dialect of SQL as rules judge it: the parser, prepared statements, and the encodings of texts."""
