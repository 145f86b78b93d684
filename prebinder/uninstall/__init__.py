"""`pvc-prebinder uninstall`: takes everything of ours off the objects of a cluster, so that it is as without us.

Open `traces` first: what of an object is ours, as pure judgements. Never a write while a controller holds the Lease,
never a deleted object, and never a claimRef that somebody else wrote.
"""
