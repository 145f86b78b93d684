"""From the API's JSON to records: bytes in, one record out, or an error about that object alone.

Open `decode` first; `wire` has the fields that are read. Never a rule, and never a guess about a malformed field.
"""
