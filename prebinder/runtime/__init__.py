"""What every long-running process needs: the leader's loop, informers, periodic jobs, logs, signals.

Open `leader_loop` first. Never what the leader does.
"""
