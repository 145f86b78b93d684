"""The registry of each process, and the metrics that only this package knows: of drivers, the extender, jobs.

Those of requests, claims and scheduling are in the packages of what counts: `kube.metrics`,
`binder.reporting.metrics`, `scheduler.standalone.metrics`.

Here belong: names, labels, buckets, help texts, and what is computed from a snapshot at each scrape. Labels are known
when the program starts or bounded by the cluster's shape. Never: a pod, claim, volume, node or namespace as a label
value, or a metric that affects a decision.
"""
