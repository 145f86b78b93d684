"""Kubernetes's rules about pods relative to other pods: inter-pod affinity, topology spread, host ports, shared disks.

Open `placed_pods` first: it is what the rules read about the pods of a cluster. Never a rule about one pod and one node
alone; those are in `kube.rules`.
"""
