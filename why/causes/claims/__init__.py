"""Why a claim has no volume, or not one of the requested size: its class, the existing volumes, the provisioner.

Open `claim_and_class` first. Never what is wrong with the pod that uses it.
"""
