"""The usual names of drivers' workloads: the table `known.toml`, for drivers whose own name does not show them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

_OF_ANY_DRIVER: Final = frozenset(
    {"block", "com", "csi", "csi-driver", "disk", "driver", "file", "io", "local", "org", "storage", "volume"}
)
"""Parts of drivers' names that tell none from another."""


@dataclass(frozen=True, slots=True)
class KnownDriver:
    """A driver, and the workloads of its controller and of its node plugin, as its manifests name them.

    `namespace` is empty where each installation has its own. `kind` is `pod` for a provisioner that is only a pod.
    """

    name: str
    source: str
    controller: Sequence[str] = ()
    node: Sequence[str] = ()
    namespace: str = ""
    kind: str = ""

    @property
    def is_found_by_stem(self) -> bool:
        """Whether the driver's name is in the line of each of its workloads, in its name or its namespace."""
        stem = stem_of(self.name).lower()
        # Two letters, such as `pd`, are in many names.
        return len(stem) > 2 and all(stem in f"{self.namespace} {name}" for name in self.workloads)

    @property
    def workloads(self) -> tuple[str, ...]:
        return (*self.controller, *self.node)


@lru_cache(maxsize=1)
def known_drivers() -> tuple[KnownDriver, ...]:
    """Return the table, in its order. Read once, when it is needed."""
    table = tomllib.loads(files(__package__).joinpath("known.toml").read_text("utf-8"))["driver"]
    return tuple(KnownDriver(**row) for row in table)


def known_driver(driver: str) -> KnownDriver | None:
    """Return the row of a driver. An instance of it may have a name that ends with the driver's, as Rook's do."""
    rows = known_drivers()
    named = next((row for row in rows if row.name == driver), None)
    return named or next((row for row in rows if driver.endswith((f".{row.name}", f"/{row.name}"))), None)


def stem_of(driver: str) -> str:
    """Return the part of a driver's name after which its workloads are usually named: `ebs` of `ebs.csi.aws.com`."""
    words = driver.rsplit("/", maxsplit=1)[-1].split(".")
    return next((word for word in words if word not in _OF_ANY_DRIVER), words[0])
