"""`pvc-prebinder replace`: gives a pod another volume for one that is lost, with the user's rights.

Open `carrying_out` first; what is done and when is decided in binder.replacement. The one place of this program that
deletes anything: a claim, under preconditions, after both proofs. Never part of a controller, and never an object other
than that claim and, through the Eviction API, its pod.
"""
