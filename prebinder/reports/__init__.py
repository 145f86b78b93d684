"""What commands print about volumes, claims and pods, and the objects they read from files or a cluster.

Open `match_input` and `match_report` first. Never a rule about them.
"""
