"""Why a claim has no volume, or not one of the size it asks for: its class, the volumes there are, who makes new ones.

Open `claim_and_class` first. Never what is wrong with the pod that uses it.
"""
