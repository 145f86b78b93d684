"""The reservation contract: annotations on volume and claim, when a reservation ends, and the bodies of all writes.

Open `contract` first. Never a request to the API server.
"""
