"""`why --serve` as a process: where its feed comes from, its server, and the guard in front of it.

Open `server` first. Never what the page shows: that is `why/view/`.
"""
