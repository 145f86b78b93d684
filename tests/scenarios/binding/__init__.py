"""Claims get their volumes: each mode beside the PV controller and kube-scheduler, and with other writers in between.

Open `test_modes` first. Never a failure of the API server or of a process; these are in `faults`.
"""
