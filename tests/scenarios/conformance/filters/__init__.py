"""What pods require of nodes and of other pods: our filters beside those of a real kube-scheduler.

Open `demanding_pods` for the random pods. Never what pods require of volumes: those are the puzzles of the room above.
"""
