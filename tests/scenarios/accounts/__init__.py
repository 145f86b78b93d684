"""The admission policies that limit our accounts: everything an account does, and what a stolen token may not do.

Open `stolen_token` first. Never what the processes do without policies.
"""
