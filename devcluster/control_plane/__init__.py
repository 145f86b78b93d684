"""What a control plane is made of: files, certificates, the command line of each component, nodes without kubelets.

Open `assembly` first, `components` for a flag. Never starts a process.
"""
