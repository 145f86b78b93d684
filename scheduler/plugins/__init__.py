"""The filters, scores and queue sort, a module per family as in kube-scheduler, and their registry.

Open `registry` first. Never I/O.
"""
