"""The only Kubernetes I/O: requests, lists, watches, Events, and the connection they go through.

Open `api` for the verbs and `transport` for the seam that tests replace. Never a decision about what to write.
"""
