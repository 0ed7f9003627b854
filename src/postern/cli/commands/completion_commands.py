from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options, and names on your gateway.

    \b
    bash: echo 'eval "$(postern completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(postern completion zsh)"' >> ~/.zshrc
    fish: postern completion fish > ~/.config/fish/completions/postern.fish
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    # `source()` is avoided: it starts the shell to read its version, which can be a different shell than the caller's.
    complete = completion_class(ctx.find_root().command, {}, "postern", "_POSTERN_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())
