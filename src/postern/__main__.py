"""`python -m postern`: the same as the `postern` command."""

# A process that judges statements imports its parent's main module, under another name.
if __name__ == "__main__":
    from postern.cli.main import main

    main()
