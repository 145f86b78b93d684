"""Why a pod or a claim is pending: the root cause, its evidence, and the next command.

`facts/` is what was read, `causes/` are the checks and their order, `report/` is the answer, all pure; `reading/` gets
the facts from an API server or a file, `rendering/` prints the answer. Open `causes/precedence` first: it is the list
of everything that is checked. A check is a function of the facts and one object; `causes/finding` explains how to add
one. Never a write, and never a guess: what may not be read is named, and the answer is then inconclusive.
"""
