"""A soak: random users, administrators and faults on a real control plane, recorded whole and judged by an outsider.

Here belong: the schedule that a seed gives, the hands that carry it out, the recorder, and in `soak.judge` the rules.
Read `__main__` first. Never: a rule of `soak.judge` that asks the product what is right.
"""
