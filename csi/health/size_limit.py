"""Which limit an answer of a driver exceeded. The limits themselves are in csi.client.size_limits."""

from enum import StrEnum


class SizeLimit(StrEnum):
    """The limit that an answer exceeded, as in Events and metrics."""

    ANSWER = "AnswerSize"
    METADATA = "MetadataSize"
    CAPABILITIES = "Capabilities"
    VOLUME_ID = "VolumeID"
    PAGE_TOKEN = "PageToken"
    TOPOLOGY = "Topology"
    HEALTH_ENTRIES = "HealthEntries"
    LIST = "ListSize"
    REPORTS = "ReportsInSum"
