"""The checks, in families about claims, pods and volumes, and the order in which they run. Pure.

Open `precedence` for the order, `finding` for what a check is and how to add one. Never a rule of Kubernetes: those are
in kube, binder and scheduler, and are called here.
"""
