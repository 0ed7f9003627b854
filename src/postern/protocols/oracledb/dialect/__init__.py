"""The SQL and PL/SQL of Oracle Database: parser, splitting, and facts about answers."""
