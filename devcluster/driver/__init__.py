"""A CSI driver whose volumes are directories, `python -m devcluster.driver`, and drivers as processes beside a cluster.

Open `volumes` for how a volume becomes unhealthy, `generation` for how that is reported. Never part of the product.
"""
