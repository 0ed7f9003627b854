"""`postern doctor`: checks of a set-up, run side by side, each bounded in time; sockets and files only."""
