"""Which pods would have to be evicted so that another fits, within disruption budgets.

Open `preemption` first. Never evicts: it only decides.
"""
