"""Whether a volume is well: what a CSI driver says about it, as a verdict.

Here belong: the vendored CSI protos, the read-only gRPC client, capability negotiation, verdicts and topology.
Never: a call that changes a volume, or a decision about which claim gets one.
"""
