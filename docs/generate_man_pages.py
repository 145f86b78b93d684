"""Writes a man page for each command into a directory: `python docs/generate_man_pages.py dist/man`."""

import sys
from importlib.metadata import version
from pathlib import Path

import click
from click_man.core import write_man_pages

from prebinder.cli import main_group
from prebinder.command_line.command import PROGRAM


def write(folder: Path) -> None:
    """Write the pages, and create the directory."""
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages(PROGRAM, _loaded(main_group), version=version(PROGRAM), target_dir=str(folder))


def _loaded(group: click.Group) -> click.Group:
    """Return a group with all of its commands, which ours imports only when they are used."""
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    known = {
        name: _loaded(command) if isinstance(command, click.Group) else command
        for name, command in commands.items()
        if command is not None
    }
    return click.Group(group.name, commands=known, help=group.help)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
