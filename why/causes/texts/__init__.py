"""What drivers, clouds and kubelets say in their errors, and what each of these texts means: the table `texts.toml`.

Open `texts.toml` first; `table` reads it. Never a rule about objects: a text explains a failure that a check has found.
"""
