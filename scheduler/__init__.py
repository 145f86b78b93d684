"""Where a pod should run, given what is reserved for it.

The rooms, from what a rule reads to its callers: `state` and `volumes` (the cluster), `framework` (what a plugin is),
`plugins` (the rules), `cycle` (one decision), `queue` (which pod is next), `preemption` (victims), `binding` (what is
written); then the three that use them: `standalone`, `extender`, `simulator`. Never: a reservation; that is binder's.
"""
