"""Everything that was read, as one frozen value that also records what was not read and why. Pure.

Open `facts` first. Never a judgement.
"""
