"""The scheduler extender, called by a real kube-scheduler over TLS.

Open `test_extender` first. Never a rule for single nodes; tests/scheduler/extender has these.
"""
