"""Traces of attempts for pods, by OpenTelemetry: an optional extra, loaded only where tracing is switched on.

Open `start` first. Never what is traced: each part says that itself, by the port `binder.reporting.tracing`.
"""
