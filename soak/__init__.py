"""A soak: random users, administrators and faults on a real control plane, recorded completely and checked
independently.

Here belong: the schedule of a seed, the clients that execute it, the recorder, and in `soak.judge` the rules. Read
`__main__` first. Never: a rule of `soak.judge` that uses the product.
"""
