"""A lost volume of a pod replaced by another: what has to be proven, which volume, and which write or deletion is next.

Open `decision` first. Everything follows from what the API shows at the moment, so that a command that was killed goes
on where it stopped. Never a step that deletes a claim without both proofs, and never a volume of another replica.
"""
