"""What becomes of a pod's claims on a node: kube-scheduler's choice, ours, and what is Available.

Open `volume_binding` first. Never a write.
"""
