"""Programs at this process's terminal: clients, replays, forwarded ports."""
