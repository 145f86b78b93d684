"""The token of the control port: a line in a file, which is created if missing.

The file is read again when it changes, as that of a Secret does when it is rotated.
"""

import asyncio
import logging
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Final, NoReturn

from kube.clock import Clock, every
from prebinder.errors import CommandError

MIN_CHARACTERS: Final = 16
POLL_SECONDS: Final = 10.0
"""How often the file is read. The kubelet itself takes up to a minute to bring a changed Secret into a pod."""

_MAX_FILE_BYTES: Final = 4096
_FORBIDDEN: Final = stat.S_IWGRP | stat.S_IRWXO

logger = logging.getLogger(__name__)


def default_token_file() -> Path:
    """Return the default path of the token; each user of a machine has a file of their own."""
    directory = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(directory) / f"pvc-prebinder-control-{os.getuid()}.token"


def obtain_token(path: Path) -> str:
    """Return the token in the file; if it is missing, create one, readable by this user only. Raises CommandError."""
    try:
        # O_EXCL: neither a file nor a link that another process creates meanwhile is written to.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise CommandError(f"cannot create the control token {path}: {error.strerror}; choose another file") from error
    token = secrets.token_urlsafe(32)
    with os.fdopen(file, "w") as writer:
        writer.write(f"{token}\n")
    logger.info("Created the control port token", extra={"file": str(path)})
    return token


def read_token(path: Path) -> str:
    """Return the token in the file. Raises CommandError if it cannot be read, or if others could read or change it.

    Its group may read it: that is how the kubelet mounts a Secret for a user other than root.
    """
    try:
        with open(path, "rb") as reader:
            status = os.fstat(reader.fileno())
            content = reader.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"cannot read the control token {path}: {error.strerror}") from error
    if status.st_uid not in (0, os.getuid()):
        raise CommandError(
            f"the control token {path} belongs to user {status.st_uid}; expected this process's user or root"
        )
    if status.st_mode & _FORBIDDEN:
        mode = stat.S_IMODE(status.st_mode)
        raise CommandError(
            f"the control token {path} has mode {mode:04o}: other users have access. Run chmod 600 {path}"
        )
    token = content.decode("ascii", errors="replace").strip()
    if len(content) > _MAX_FILE_BYTES or len(token) < MIN_CHARACTERS or not _is_word(token):
        raise CommandError(
            f"the control token {path} must be one line of {MIN_CHARACTERS} characters or more, ASCII without "
            "spaces; remove the file to have one created"
        )
    return token


class ControlToken:
    """Holds the latest valid token, `current`. The first is read or created by the constructor, which may raise
    CommandError.
    """

    def __init__(self, path: Path) -> None:
        self.current = obtain_token(path)
        self._path = path
        self._problem = ""

    async def follow(self, clock: Clock) -> NoReturn:
        """Check the file periodically until cancelled."""
        await every(POLL_SECONDS, clock, self.refresh)

    async def refresh(self) -> None:
        """Use the new token if it has changed and is valid. An invalid one is reported once."""
        try:
            token = await asyncio.to_thread(read_token, self._path)
        except CommandError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning(
                    "Control port token rejected; the previous one stays in use", extra={"error": self._problem}
                )
            return
        self._problem = ""
        if token != self.current:
            self.current = token
            logger.info("Control port token reloaded", extra={"file": str(self._path)})


def _is_word(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token
