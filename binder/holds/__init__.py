"""Which volumes are held for the replicas to come of StatefulSets: which replicas, in which zones, until when. Pure.

Open `hold_pass` first. Never a write: `binder.controllers.hold_controller` executes what is decided here.
"""
