"""The registry of each process, and the metrics that only processes have: of drivers, requests and watches.

Those of claims and scheduling are beside what counts: `binder.reporting.metrics`, `scheduler.standalone.metrics`.

Here belong: names, labels, buckets, help texts, and what is computed from a snapshot at each scrape. Labels are known
when the program starts or bounded by the cluster's shape. Never: a pod, claim, volume, node or namespace as a label
value, or a metric that affects a decision.
"""
