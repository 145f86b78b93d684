"""All metrics, each defined in one place, and the ports of the other packages that feed them.

Here belong: names, labels, buckets, help texts, and what is computed from a snapshot at each scrape. Labels are known
when the program starts or bounded by the cluster's shape. Never: a pod, claim, volume, node or namespace as a label
value, or a metric that affects a decision.
"""
