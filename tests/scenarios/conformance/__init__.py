"""Results compared with those of a real kube-scheduler on the same objects, and with what a new Kubernetes added.

Open `puzzles` for the random clusters, then `test_match_as_scheduler`. Never an expected value of our own where
kube-scheduler's can be had.
"""
