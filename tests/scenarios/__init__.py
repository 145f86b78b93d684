"""Stories on a real control plane: what users, faults and other controllers do, and the state it must end in.

Open `environment.world` first: each story has a namespace, classes and volumes of its own; `conftest` has the fixtures,
among them the control plane and the controller that stories share. A room per subject; `environment` and `processes`
hold what several rooms use. Never a story that waits for time to pass instead of for a state.
"""
