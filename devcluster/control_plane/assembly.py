"""Writes a cluster's files into its directory and composes its components, not yet started."""

import json
import ssl
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from devcluster.control_plane import components
from devcluster.control_plane.components import Layout, Options, Ports
from devcluster.credentials import kubeconfig
from devcluster.credentials.certificates import Authority, service_account_key
from devcluster.node import files
from devcluster.processes.component import Component, Probe, ProcessOwner
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok

# The kubeconfigs, with the user and groups that the API server sees.
_USERS = {
    "admin": ("admin", ("system:masters",)),
    # All controllers act as this one user. With a service account each, as with kubeadm, they would take 5 seconds
    # longer to start.
    "controller-manager": ("system:kube-controller-manager", ("system:masters",)),
    "scheduler": ("system:kube-scheduler", ()),
    # It acts for every node at once, for which the Node authoriser has no role.
    "kwok": ("kwok", ("system:masters",)),
}


def prepare(directory: Path, binaries: Mapping[str, Path], options: Options) -> Layout:
    """Choose ports and write certificates, kubeconfigs and configuration files into the directory."""
    certificates = directory / "certificates"
    certificates.mkdir()
    authority = Authority(certificates, datetime.now(UTC))
    layout = Layout(
        binaries=binaries,
        directory=directory,
        ports=Ports(*free_ports(6)),
        authority=authority.certificate,
        serving=authority.serving("serving"),
        service_account_key=service_account_key(certificates),
    )
    for name, (user, groups) in _USERS.items():
        client = authority.client(user, groups)
        kubeconfig.write_for_certificate(layout.kubeconfig(name), layout.server, layout.authority, client)
    configuration = components.scheduler_configuration(layout, options)
    (directory / "scheduler.yaml").write_text(json.dumps(configuration), encoding="utf-8")
    if options.kubectl:
        layout.kubectl.parent.mkdir()
        layout.kubectl.symlink_to(binaries["kubectl"])
    if options.real_node:
        files.write(layout.node, sys.executable, authority)
    return layout


def administrator_trust(layout: Layout) -> ssl.SSLContext:
    """Return the TLS settings of a client that trusts this cluster only and is its administrator."""
    context = ssl.create_default_context(cafile=layout.authority)
    certificates = layout.authority.parent
    context.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")
    return context


def assemble(layout: Layout, options: Options, owner: ProcessOwner, trust: ssl.SSLContext) -> dict[str, Component]:
    """Return the components by the name of their attribute on the cluster, in the order they are to be started."""

    def answers(url: str) -> Probe:
        return lambda: answers_ok(url, trust)

    def component(name: str, command: list[str], url: str) -> Component:
        return Component(
            name,
            command,
            owner=owner,
            directory=layout.directory,
            probe=answers(url),
            # kwok reads, and writes, a configuration directory in the user's home.
            environment={"HOME": str(layout.directory)},
        )

    ports = layout.ports
    secure, plain = f"https://{LOOPBACK}", f"http://{LOOPBACK}"
    plan = {
        "etcd": ("etcd", components.etcd, f"{plain}:{ports.etcd}/health"),
        "apiserver": ("kube-apiserver", components.apiserver, f"{secure}:{ports.apiserver}/readyz"),
        "controller_manager": (
            "kube-controller-manager",
            components.controller_manager,
            f"{secure}:{ports.controller_manager}/healthz",
        ),
        "scheduler": ("kube-scheduler", components.scheduler, f"{secure}:{ports.scheduler}/readyz"),
        "kwok": ("kwok", components.kwok, f"{plain}:{ports.kwok}/healthz"),
    }
    return {
        attribute: component(name, command(layout, options), url)
        for attribute, (name, command, url) in plan.items()
        if attribute in {"etcd", "apiserver"} or getattr(options, attribute)
    }
