"""How many small defects in rules and writers the unit tests of their own package find: `make mutants`.

mutmut and cosmic-ray leave no statement out: no check, write or lock, which is what survived most often here. mutmut's
trampolines also change the call stacks that some tests compare.

Never a change of a file: a defect lives in a child process of the tests.
"""
