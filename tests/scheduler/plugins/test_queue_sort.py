from datetime import timedelta

from scheduler.plugins.queue_sort import PrioritySort
from tests import builders

LATER = builders.EPOCH + timedelta(seconds=1)


def test_the_more_important_then_the_older_then_by_name() -> None:
    pods = [
        builders.pod("young", created=LATER),
        builders.pod("b"),
        builders.pod("a"),
        builders.pod("important", priority=10, created=LATER),
        builders.pod("unimportant", priority=-10),
        builders.pod("timeless", created=None),
    ]
    ordered = sorted(pods, key=PrioritySort().key)
    assert [pod.name for pod in ordered] == ["important", "a", "b", "young", "timeless", "unimportant"]
