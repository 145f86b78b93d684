"""Measurements without a control plane: matching in a loop, and the controller on lists from a fake API server.

Open `match_bench` and `cache_bench`. Never a cluster.
"""
