"""The controller on a control plane of its own: pairs of pod and claim, scarce volumes, and a quiet cluster.

Open `stage` first: it is what all of them run on. Never a rule about where a pod belongs.
"""
