"""Reading recorded frames: as text, as tables, answer by answer, and as an HTTP archive."""
