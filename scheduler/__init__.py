"""Where a pod should go, given what is reserved for it.

Where to look first:

- what a rule sees: `cluster`, `node_state`, `volumes`, the indexes of `kube.rules`; `live_cluster` keeps it current;
- rules: `plugin` says what one is, `catalog` lists all, `profile` and `config` choose among them; filters and scores
  have the names of what they look at (`node_rules`, `resource_fit`, `reservation_filters`, `storage_scores`, ...);
- a decision: `cycle`, and `alike`, which remembers; `preemption`, `victims` and `budgets` when no node is found;
- the standalone scheduler: `standalone` is the loop, `attempts` one attempt, `waiting` the queue, `requeue` and
  `hints*` what wakes a pod, `binding_cycle`, `bind_volumes`, `bind_pod` and `evict` what is written, `diagnosis` and
  `pod_status` what is told;
- the extender: `extender` and `extender_*`; the simulator: `simulation`, `simulated_*`, `what_if`.

Never: a reservation; that is binder's.
"""
