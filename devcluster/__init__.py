"""A real control plane on one machine, with real CSI drivers, for the demo, the tests and the benchmarks.

Here belong: building, starting, stopping, pausing and cleaning up the control plane and the drivers.
Never: anything the controller needs in a user's cluster.
"""
