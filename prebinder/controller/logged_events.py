"""Logs Events as well, because that is where people look first."""

import logging

from kube.client.event_recorder import EventDraft, EventSink

logger = logging.getLogger(__name__)


class LoggedEvents:
    """Logs each Event about a pod, and forwards all of them. Events about claims repeat those about the pod."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink

    def publish(self, draft: EventDraft) -> None:
        if draft.regarding.kind == "Pod":
            pod = f"{draft.regarding.namespace}/{draft.regarding.name}"
            logger.info("Publishing Event", extra={"pod": pod, "reason": draft.reason, "note": draft.note})
        self._sink.publish(draft)
