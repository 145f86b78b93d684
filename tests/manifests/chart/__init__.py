"""The Helm chart: the same as kustomize installs, and what its values change."""
