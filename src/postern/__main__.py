"""`python -m postern`: the same as the `postern` command. Also the fork server, which is no command for people."""

# A process that judges statements imports its parent's main module, under another name.
if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["fork-server"]:
        from postern.gateway.processes.fork_server import serve

        serve(sys.argv[2:])  # returns only in the processes that it forks, whose arguments are others

    from postern.cli.main import main

    main()
