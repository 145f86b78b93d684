"""How a command reaches the cluster: its flags for that, the connection, and what the user reads if it fails."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING

import cloup

from binder.reservation.contract import DEFAULT_PREFIX
from kube.client.api import KubeApi
from kube.client.credentials import CallerOptions, Impersonation, impersonation
from kube.client.dry_run import DryRun
from kube.errors import Forbidden, KubeconfigError, KubeError, Unauthorized, Unavailable
from prebinder.command_line.kubeconfig_contexts import contexts
from prebinder.command_line.parameters import FILE, TIMEOUT, Completing
from prebinder.config.annotation_prefix import AnnotationPrefix
from prebinder.errors import CommandError, UsageError

if TYPE_CHECKING:
    from kube.client.connect import KubernetesTransport


@dataclass(frozen=True, slots=True)
class ClusterAccess(AnnotationPrefix):
    """How a command reaches the cluster, and the prefix of the annotations it reads there."""

    kubeconfig: str | None = None
    context: str | None = None
    annotation_prefix: str = DEFAULT_PREFIX
    impersonate: Impersonation = ()
    request_timeout: timedelta | None = None
    """Of each request but those that follow changes, zero for none; by default half a minute."""


def access_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Add the flags of ClusterAccess to a command; it receives them as `access`."""

    @wraps(function)
    def with_access(
        kubeconfig: str | None,
        context: str | None,
        annotation_prefix: str,
        as_user: str | None,
        as_groups: tuple[str, ...],
        request_timeout: timedelta | None,
        **others: object,
    ) -> int:
        if as_groups and not as_user:
            raise UsageError("--as-group needs --as")
        impersonate = impersonation(as_user, as_groups)
        access = ClusterAccess(kubeconfig, context, annotation_prefix, impersonate, request_timeout)
        return function(access=access, **others)

    flags = cloup.option_group(
        "Cluster",
        cloup.option("--kubeconfig", type=FILE, metavar="FILE", help="default $KUBECONFIG, then ~/.kube/config"),
        cloup.option(
            "--context",
            type=Completing("name", str, contexts),
            metavar="NAME",
            help="kubeconfig context, default the current one",
        ),
        cloup.option("--as", "as_user", metavar="USER", help="act as this user, if you may impersonate it"),
        cloup.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="with --as; repeatable"),
        cloup.option(
            "--request-timeout",
            type=TIMEOUT,
            metavar="DURATION",
            help="limit of one request, such as 10s, default 30s; 0 for none",
        ),
        cloup.option("--annotation-prefix", default=DEFAULT_PREFIX, metavar="PREFIX", help=f"default {DEFAULT_PREFIX}"),
    )
    return flags(with_access)


@asynccontextmanager
async def cluster_api(access: ClusterAccess, *, dry_run: bool = False) -> AsyncIterator[KubeApi]:
    """Connect to the cluster that the flags name; in a dry run nothing is written. Errors become a CommandError."""
    async with cluster_connection(access, dry_run=dry_run) as (api, _):
        yield api


@asynccontextmanager
async def cluster_connection(access: ClusterAccess, *, dry_run: bool = False) -> AsyncIterator[tuple[KubeApi, str]]:
    """As `cluster_api`, and the namespace of the context beside it."""
    async with connection(access) as transport:
        yield KubeApi(DryRun(transport) if dry_run else transport), transport.namespace


@asynccontextmanager
async def connection(access: ClusterAccess) -> AsyncIterator["KubernetesTransport"]:
    """Connect to the cluster. Errors of the connection and of what is done with it become a CommandError."""
    try:
        from kube.client.connect import connect  # noqa: PLC0415 - what reads files only does without it

        caller = CallerOptions(access.impersonate, access.request_timeout)
        async with await connect(access.kubeconfig, access.context, caller=caller) as transport:
            yield transport
    except Forbidden as error:
        raise CommandError(f"{error}; request that permission, or choose another --context") from error
    except Unauthorized as error:
        raise CommandError(f"{error}; credentials rejected; log in again") from error
    except Unavailable as error:
        # Without any response it does not matter what was asked for.
        raise CommandError(str(error) if error.status else error.message) from error
    except (KubeconfigError, KubeError) as error:
        raise CommandError(str(error)) from error
