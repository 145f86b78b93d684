"""The demo: real pods, volumes and drivers on a local control plane, and what is shown of them.

Open `command` first. Never imported by the product, except to run the command.
"""
