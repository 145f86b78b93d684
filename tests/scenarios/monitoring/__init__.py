"""The dashboard and the alerts on a real Prometheus that scrapes real processes.

Open `stage` first: what every story here has. Never a text of the rules; tests/manifests checks these with promtool.
"""
