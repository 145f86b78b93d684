"""Removes credentials from texts that people will read: logs, errors, reports.

Our own code keeps credentials out of its texts. This is for texts from elsewhere: a library's error, the output of an
exec plugin, a configured address. It is better to hide a word too many than to show a password.
"""

import re
from typing import Final

HIDDEN: Final = "***"

_NAMES: Final = r"(?:[\w-]*(?:token|password|passwd|secret)|clientKeyData|client-key-data)"

_SECRETS: Final = (
    # The user part of a URL, up to the last @ before the path.
    (re.compile(r"(://)[^\s/?#]*@"), rf"\1{HIDDEN}@"),
    # An Authorization header, or what may be one; prose has no digit or padding behind these words.
    (re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\"]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)(\s+)(?=[^\s'\"]*[0-9=])[\w.~+/=-]{8,}"), rf"\1\2{HIDDEN}"),
    # A JSON Web Token, wherever it occurs.
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}"), HIDDEN),
    # `token=x`, `"token": "x"`, and `token: x` if x looks like one.
    (re.compile(rf"(?i)\b({_NAMES}=)[^\s'\",&]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)(\\?['\"]{_NAMES}\\?['\"]\s*:\s*\\?['\"])[^'\"\\]*"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)\b({_NAMES}:\s*)(?=\S*[0-9])[\w.~+/=-]{{12,}}"), rf"\1{HIDDEN}"),
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL), HIDDEN),
)


def redacted(text: str) -> str:
    """Return the text with everything that looks like a credential hidden."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text
