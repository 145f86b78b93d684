"""The agent beside a CSI driver: the controller's process with less to do.

Open `duty`. Never reserves or binds.
"""
