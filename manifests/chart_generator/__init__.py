"""Makes the Helm charts of manifests/ from what kustomize installs: templates, the schema of the values, their table.

Here is what a value decides about an object. What an object is belongs into base and components, which the charts
repeat; nothing here runs in a cluster.
"""
