"""What a pass reads and yields, as frozen values: the view, the demand of a pod, the ledger of promises, the decision.

Open `decision` first. Never how a decision is made.
"""
