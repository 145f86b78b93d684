"""The parts of the command `simulate`: its flags, changes, traces, charts and report.

Open `report` first. Never the simulation itself.
"""
