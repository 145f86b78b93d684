"""`pvc-prebinder why` and its page: each cause is produced, named, and mended by following the advice.

Open `test_why` first. Never a cause that can be shown on a dump alone; tests/why has these.
"""
