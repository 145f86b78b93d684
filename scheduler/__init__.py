"""Where a pod should go, given what is reserved for it.

The rooms, from what a rule sees to who asks: `state` and `volumes` (the cluster), `framework` (what a plugin is),
`plugins` (the rules), `cycle` (one decision), `queue` (who is next), `preemption` (who would have to leave), `binding`
(what is written); then the three that use them: `standalone`, `extender`, `simulator`. Never: a reservation; that is
binder's.
"""
