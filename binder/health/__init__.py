"""The health of volumes as reported in the cluster, what is published of it, and quarantine.

Open `reported_health` first. Never a call to a driver.
"""
