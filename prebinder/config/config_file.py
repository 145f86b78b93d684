"""The configuration files of the controller and of the agent: their keys are the fields of the settings."""

from pathlib import Path
from typing import Final, TypeVar

from kube.configuration.document import ConfigurationError, ConfigurationFile
from prebinder.config.settings import AgentSettings, Settings
from prebinder.errors import UsageError

T = TypeVar("T")

CONTROLLER: Final = ConfigurationFile("ControllerConfiguration", Settings)
AGENT: Final = ConfigurationFile("AgentConfiguration", AgentSettings)


def load(file: ConfigurationFile[T], path: str) -> T:
    """Read a file, or raise UsageError that names the file, the key and what was expected."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the configuration file {path}: {getattr(error, 'strerror', error)}") from error
    try:
        return file.parse(text)
    except ConfigurationError as error:
        raise UsageError(f"configuration file {path}: {error}") from error
