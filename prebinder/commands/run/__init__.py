"""The commands that run in a cluster until they are stopped.

Open the module named like the command. Never the process itself, which is loaded only when it is started.
"""
