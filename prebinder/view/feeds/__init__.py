"""Where views come from and how they are kept up to date: a file, a cluster, a cluster by the caller's token. Effects.

Open `publisher` first: whoever looks receives a whole view and then what changes. Never a judgement of volumes.
"""
