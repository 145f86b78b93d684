"""What must never happen, checked at every resourceVersion from etcd's history and the API server's audit log.

Start with `verdict`: it replays the history, applies every rule to every change, and then checks the final state.
Never: an import of the product, of the devcluster, or of the part of the soak that causes faults.
"""
