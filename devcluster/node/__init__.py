"""A real node for the local control plane: kubelet, containerd and runc in namespaces of their own.

Here belong: what the node consists of, how it starts, and how it and the API server reach each other.
Never: anything outside those namespaces. When the node's process 1 is killed, the kernel ends its processes, mounts and
network with it; only its cgroups have to be removed.
"""
