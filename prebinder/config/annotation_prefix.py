"""The setting that scopes everything we write on objects: the prefix of our annotations."""

from binder.reservation.contract import Annotations
from kube.rules.selectors import is_label_key


class AnnotationPrefix:
    """Settings that have a prefix. The prefix is validated in `__post_init__`, with `reject_bad_prefix`."""

    __slots__ = ()
    annotation_prefix: str

    @property
    def annotations(self) -> Annotations:
        """Return our annotations under this prefix."""
        return Annotations(self.annotation_prefix)


def reject_bad_prefix(prefix: str) -> None:
    """Raise ValueError, with a sentence for the user, if this cannot be the prefix of annotations."""
    if not (prefix.endswith("/") and is_label_key(f"{prefix}mode")):
        raise ValueError(f'annotation prefix must be a domain and "/", is "{prefix}"')
