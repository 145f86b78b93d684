"""The demo: real pods, volumes and drivers on a local control plane, and how they are shown.

Open `command` first. Never imported by the product, except to run the command.
"""
