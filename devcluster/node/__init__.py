"""A real node for the local control plane: kubelet, containerd and runc in namespaces of their own.

Open `files` for its configuration, `inside` for how it starts, `relay` for how it and the API server reach each other.
When its process 1 is killed, the kernel ends its processes, mounts and network with it. Never touches the machine
outside of those namespaces, except for the pods' cgroup.
"""
