"""Our scheduler and our extender beside kube-scheduler, in the same run.

Open `contest` first. Never checks where a pod was placed; that is `bench.placement`.
"""
