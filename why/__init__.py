"""Why a pod or a claim is pending, and which volume Kubernetes itself would pick: the rules and readers, and the page.

`facts/` is what was read, `causes/` are the checks and their order, `report/` is the answer, all pure; `reading/` gets
the facts from an API server or a file, `explain/` answers questions about them, `rendering/` prints the answer;
`match/` reports which volume Kubernetes would pick; `view/` is what the page of `why --serve` shows. Open
`causes/precedence` first: it is the list of everything that is checked. A check is a function of the facts and one
object; `causes/finding` explains how to add one. Never a write, and never a guess: what may not be read is named, and
the answer is then inconclusive.
"""
