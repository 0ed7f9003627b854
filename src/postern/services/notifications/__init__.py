"""What is told of sessions and writes after the fact: reports, and events to the outside."""
