"""The parts of a control plane: files, the command line of each component, nodes without kubelets.

Open `assembly` first, `components` for a flag. Never starts a process.
"""
