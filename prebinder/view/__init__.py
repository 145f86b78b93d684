"""`why --serve`: zones, nodes and volumes as a page in the browser, kept up to date while it is open.

`model/` turns facts into what the page shows, pure; `feeds/` keeps a view up to date from a file, a cluster, or a
cluster with the caller's own token; `server` and `request_guard` serve it; `assets/` is the page, plain ES modules that
the browser takes as they are. Open `server` first. Never a write, never a rule about volumes of its own, and never a
request to anything but the API server.
"""
