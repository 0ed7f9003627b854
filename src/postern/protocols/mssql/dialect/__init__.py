"""Analysis of T-SQL for rules: the parser, prepared statements, and facts about statements."""
