"""The Kubernetes API as values, and the only Kubernetes I/O.

Here belong: the transport, list and watch, the store and its snapshots, the Lease, Events, the work queue, and the
rules that Kubernetes itself defines about pods and nodes (quantities, selectors, taints, resources) as pure modules.
Never: a decision about volumes, volume health or reservations.
"""
