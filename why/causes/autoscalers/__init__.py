"""What autoscalers report about a pod that no node can run, and where that contradicts its volumes.

Open `beside` first. Never a cause of its own: a finding about nodes is completed here.
"""
