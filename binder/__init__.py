"""Which volume a claim should get, and its reservation.

Here belong: the matching rules of Kubernetes, joint assignment, the reservation contract, the plan, and the ordered
conditional writes that execute it. Never: a read of the API outside the snapshot's sources, or a write without the
Lease.
"""
