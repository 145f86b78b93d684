"""The API's timestamp with microseconds (meta/v1 MicroTime), as Leases and Events carry it."""

from datetime import datetime


def micro_time(now: datetime) -> str:
    """Write a time as meta/v1 MicroTime: UTC, always six digits."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
