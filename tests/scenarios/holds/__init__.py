"""Stories about volumes that are held for replicas to come.

Never one about volumes that replace others.
"""
