"""Unhealthy volumes: how their health becomes known, how they are quarantined, and that pods do not get them.

Open `test_quarantine` first. Never a check of the CSI protocol; tests/csi has these.
"""
