from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, and the names on your gateway.

    \b
    bash: echo 'eval "$(postern completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(postern completion zsh)"' >> ~/.zshrc
    fish: postern completion fish > ~/.config/fish/completions/postern.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    # Not `source()`, which starts the shell to look at its version: it may be another than the one that reads this.
    one = made(ctx.find_root().command, {}, "postern", "_POSTERN_COMPLETE")
    click.echo(one.source_template % one.source_vars())
