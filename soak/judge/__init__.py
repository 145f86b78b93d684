"""What must never happen, judged at every resourceVersion from etcd's history and the API server's audit log.

Start with `verdict`: it replays the history, asks every rule at every change, and then looks at what is left.
Never: an import of the product, of the devcluster, or of the part of the soak that causes trouble.
"""
