"""Where a driver runs: its pods, by what they are started with and by their usual names, and the logs of its sidecars.

Open `workloads` first; `known.toml` has the usual names. Never a cause: checks ask here what to look at.
"""
