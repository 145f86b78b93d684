"""Which pods would have to leave so that another fits, within disruption budgets.

Open `preemption` first. Never evicts: it only decides.
"""
