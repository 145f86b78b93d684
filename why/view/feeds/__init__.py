"""Where views come from and how they are kept up to date: a file, a cluster, a cluster by the caller's token. Effects.

Open `publisher` first: a client receives a whole view and then the changes. Never a judgement of volumes.
"""
