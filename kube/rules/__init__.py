"""Kubernetes's own rules about pods and nodes, as pure functions on frozen values, used by binder and scheduler alike.

Each cites its Go source. Open `resource_fit` for resources, `taints` for tolerations, `selectors` for labels; rules
about pods relative to other pods are in `kube.pod_topology`. Never a rule of our own.
"""
