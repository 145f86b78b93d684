"""The command line and the composition roots: everything is built here and given its dependencies.

Here belong: argument parsing, configuration, the processes' start and stop, and output for people. Never: a rule; a
rule that is needed here belongs to the package of its subject.
"""
