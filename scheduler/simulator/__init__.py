"""The scheduler on a cluster in memory: simulated time, generated or dumped clusters, and what-if questions.

Open `simulation` first. Never a real clock or a real cluster.
"""
