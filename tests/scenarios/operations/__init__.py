"""What an administrator does with pvc-prebinder: install it, limit its rights, check it, remove it.

Open `test_doctor` first. Never a text of the manifests; tests/manifests checks these without a cluster.
"""
