"""The extender for kube-scheduler: a request's bytes in, a response's bytes out, from memory alone.

Open `extender` first. Never waits for anything.
"""
