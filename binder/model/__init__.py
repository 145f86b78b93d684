"""The input and output of a pass, as frozen values: the view, the demand of a pod, the ledger, the decision.

Open `decision` first. Never how a decision is made.
"""
