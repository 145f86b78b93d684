"""What new volumes are to be filled from, where no watch shows it: snapshots, read when a pod needs one.

Open `snapshots` first. Never writes, and never reads anything that no claim of a pod to be planned names.
"""
