"""Everything that was read, as one frozen value that also knows what was not read and why. Pure.

Open `facts` first. Never a judgement.
"""
