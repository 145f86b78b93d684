"""`pvc-prebinder dev`: tools for developers of pvc-prebinder and of schedulers."""

from typing import Final

from prebinder.command_line.command import Group, Sections

SECTIONS: Final[Sections] = {
    "Commands": {
        "devcluster": ("prebinder.commands.dev.devcluster", "start and stop a real control plane on this machine"),
        "profile": ("prebinder.commands.dev.profile", "show where a running scheduler spends its time"),
    },
}

command: Final = Group(
    SECTIONS, name="dev", help="Runs a local control plane, and shows where a running scheduler spends its time."
)
