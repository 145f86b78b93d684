"""The standalone scheduler on a real API server: placement, binding of volumes, preemption, its control port.

Open `test_scheduler` first. Never a rule that needs no API server; tests/scheduler has these.
"""
