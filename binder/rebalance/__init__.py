"""Makes room for pods that found nothing by moving others of the same pass.

Open `rebalance` first. Never moves what an earlier pass promised.
"""
