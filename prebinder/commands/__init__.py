"""One module for each command: its flags, its help, and the call of what does the work.

Open the module named like the command. Never work of its own besides reporting.
"""
