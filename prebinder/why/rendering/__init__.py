"""The report for people and for programs: text, wide, JSON, YAML and names. Effects.

Open `text` first. Never a judgement: whatever is printed is in the report.
"""
