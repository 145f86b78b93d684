"""The commands below `pvc-prebinder dev`.

Open `group` first. Never used in a cluster.
"""
