"""Requests fail, watches break, processes are killed, a Lease is lost: what is written stays correct and work goes on.

Open `test_crashes` first. Never a fault of the scheduler's own cycle; `scheduler` has these.
"""
