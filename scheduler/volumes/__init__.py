"""What a pod's claims get on a node: kube-scheduler's choice, ours, and what is Available.

Open `volume_binding` first. Never a write.
"""
