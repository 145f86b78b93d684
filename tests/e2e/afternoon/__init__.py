"""The first afternoon, typed on a real node by the README alone: its steps, the transcript, and its page in docs/."""
