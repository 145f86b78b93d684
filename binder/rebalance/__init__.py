"""Makes room for pods that got nothing by moving others of the same pass.

Open `rebalance` first. Never moves what an earlier pass reserved.
"""
