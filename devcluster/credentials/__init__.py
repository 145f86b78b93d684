"""What the parts of a cluster present to each other: certificates of its own CA, and kubeconfigs.

Open `certificates` first. Never who gets which.
"""
