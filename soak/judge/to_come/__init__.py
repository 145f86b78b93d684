"""Rules about claims and volumes to come: holds, replacements of lost volumes, and volumes still to be made.

Open `holds` first. Never: which node has room for a pod.
"""
