"""Reading recorded answers of CloudWatch: as text, as tables, and answer by answer."""
