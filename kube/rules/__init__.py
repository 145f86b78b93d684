"""Kubernetes's own rules about pods and nodes, as pure functions on frozen values, used by binder and scheduler alike.

Open `placed_pods` first: it is what the rules about other pods look at. `node_index` and `pod_groups` are the two
indexes behind it; `inter_pod_affinity`, `topology_spread`, `host_ports` and `disk_conflicts` are filters of
kube-scheduler, each in the module named after it. They answer with sets of nodes and the term or constraint that
decides; words for people are made where people are told (`binder.assignment.pod_rejection`).
Never a rule of our own, and never an effect.
"""
