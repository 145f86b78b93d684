"""Which volume a claim should get, and holding it.

Here belong: the matching rules of Kubernetes, joint assignment, the reservation contract, the plan, and the ordered
conditional writes that carry it out.
Never: a read of the API outside the snapshot's sources, or a write without the lease.
"""
