"""Gauges computed at each scrape, from a snapshot: no bookkeeping that could go wrong.

Open `cluster` first, for the controller, or `scheduler`. Never a counter, and never a gauge that has to be set.
"""
