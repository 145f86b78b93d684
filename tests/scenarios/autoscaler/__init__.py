"""Stories with a real Karpenter, whose nodes come 60 seconds after they were launched.

Never a part of `make test`: Karpenter is built by `make autoscaler`, and acts on the whole cluster.
"""
