"""`postern doctor`: checks of an installation, which run concurrently, each with a timeout. They use sockets and files
only."""
