"""Which volume Kubernetes gives to a claim: its rules one by one, an index of Available volumes, and reasons for
rejection.

Open `matching` first. Never a preference of our own.
"""
