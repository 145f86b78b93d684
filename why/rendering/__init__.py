"""The report for people and for programs: text, wide, JSON, YAML and names; the style of tables. Effects.

Open `text` first. Never a judgement: whatever is printed is in the report.
"""
