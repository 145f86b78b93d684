"""What stories run: the commands of pvc-prebinder, with the rights of manifests/ only, and what stands between them and
the API server.

Open `controller` first; `scheduler_in_process` composes the scheduler in the test's own process. Never a story.
"""
