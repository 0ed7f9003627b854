"""What happens to statements that rules hold, and where they are judged."""
