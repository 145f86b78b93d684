"""Whose turn it is: one replica of a StatefulSet at a time, as an annotation of the set.

It also records which volume takes the place of which, so that two users who begin at once cannot choose two for one
claim: the API server accepts only one of their writes. For a pod of another owner the claim itself carries it.
"""

import msgspec


class Swap(msgspec.Struct, frozen=True, rename="camel"):
    """A claim, by name and by the uid that it had, its volume, and the volume that is to take its place.

    `new` is empty if the volume is provisioned for the claim to come.
    """

    claim: str
    claim_uid: str
    old: str
    new: str = ""


class Turn(msgspec.Struct, frozen=True, rename="camel"):
    """The replacement of the volumes of one pod. `pod_uid` is that of the pod that used them, empty if there was none.

    `give_back`: the new volumes are those that the pod had before an earlier replacement.
    """

    pod: str
    swaps: tuple[Swap, ...]
    pod_uid: str = ""
    give_back: bool = False


def format_turn(turn: Turn) -> str:
    """Return the turn as the value of an annotation."""
    return msgspec.json.encode(turn).decode()


def parse_turn(text: str | None) -> Turn | None:
    """Return the turn; None if there is none, or one that cannot be read, which counts as none."""
    try:
        turn = msgspec.json.decode(text or "", type=Turn)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None
    return turn if turn.pod and turn.swaps else None
