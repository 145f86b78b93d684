"""`pvc-prebinder replace` beside the real StatefulSet controller, kube-scheduler and PV controller.

Open `test_replace` first. Never a rule of what is replaced; tests/binder/replacement has these.
"""
