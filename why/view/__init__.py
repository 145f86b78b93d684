"""What the page of `why --serve` shows, kept up to date while it is open.

`model/` turns facts into what the page shows, pure; `feeds/` keeps a view up to date from a file, a cluster, or a
cluster with the caller's own token; `assets/` is the page, plain ES modules that the browser takes as they are. Open
`model/view` first. Never a write, never a rule about volumes of its own, and never a request to anything but the API
server.
"""
