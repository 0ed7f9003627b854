"""`python -m postern`: the same as the `postern` command."""

from postern.cli.main import main

main()
