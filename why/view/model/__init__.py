"""From facts to what the page shows, and what changed between two moments. Pure.

Open `view` first: it is the JSON that the page receives. Never a rule of Kubernetes; those are called where they stand.
"""
