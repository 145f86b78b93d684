"""Whether a volume is healthy: what its CSI driver reports, as a verdict.

Here belong: the vendored CSI protos, the read-only gRPC client, capability discovery, verdicts and topology. Never: a
call that changes a volume, or a decision about which claim gets one.
"""
