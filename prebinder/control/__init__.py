"""The scheduler's control port: JSON-RPC, configuration and profiles, on loopback and with a token.

Open `server` first. Never accessible from another machine.
"""
