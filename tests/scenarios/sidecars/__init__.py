"""`pvc-prebinder why` beside the real sidecars of CSI drivers: what these write is what `why` reads.

Open `test_provisioning` first. Never part of `make test`, since the sidecars take minutes to build: `make sidecars`.
"""
