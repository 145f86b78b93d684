"""The checks, one module for each family of causes, and the order in which they are asked. Pure.

Open `precedence` for the order, `finding` for what a check is and how to add one. Never a rule of Kubernetes: those
stand in kube, binder and scheduler, and are called here.
"""
