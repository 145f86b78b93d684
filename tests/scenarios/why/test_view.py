"""The page behind each caller's token, on a real API server: what a token may not read is not shown with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import yaml

from kube.client.api import KubeApi
from kube.client.connect import KubernetesTransport, find_api_server
from kube.client.credentials import CallerToken, Credentials
from kube.clock import SystemClock
from prebinder.metrics.unobserved import Unobserved
from tests.prebinder.view.served_view import Browser, served
from tests.scenarios.environment.documents import DELAYED, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from why.view.feeds.caller_feed import CallerFeed
from why.view.feeds.cluster_feed import Scope

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "rbac.authorization.k8s.io"
VIEW = "/api/v1alpha1/view"


@asynccontextmanager
async def page(world: World) -> AsyncIterator[Browser]:
    """Serve the page. Where the server is comes from the administrator's kubeconfig, whose certificate is not used."""
    clock = SystemClock()
    server = await find_api_server(str(world.cluster.kubeconfig), None, clock)

    @asynccontextmanager
    async def connect(token: str) -> AsyncIterator[KubeApi]:
        credentials = Credentials(server, CallerToken(token), "the caller's token", clock)
        async with KubernetesTransport(credentials) as transport:
            yield KubeApi(transport)

    async with served(CallerFeed(connect, Scope("test", prefix=world.prefix), clock, Unobserved())) as browser:
        yield browser


async def token_of(world: World, name: str, cluster_wide: bool | None) -> dict[str, str]:
    """Create an account that reads the cluster (True), the world's namespace (False) or nothing; return its header."""
    namespace = world.namespace
    await world.admin.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    )
    if cluster_wide is not None:
        kind = "ClusterRoleBinding" if cluster_wide else "RoleBinding"
        metadata = {"name": world.name(name)} if cluster_wide else {"name": name, "namespace": namespace}
        role = "cluster-admin" if cluster_wide else "view"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
        await world.admin.create(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": kind,
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [subject],
            }
        )
    kubeconfig = yaml.safe_load((await world.cluster.kubeconfig_for_service_account(namespace, name)).read_text())
    return {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}


async def test_a_token_shows_what_it_may_read_and_no_more(own_world: World) -> None:
    world = own_world
    disks = await world.storage_class(DELAYED)
    await world.volumes(disks, world.volume("disk", disks))
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    everything = await token_of(world, "operator", cluster_wide=True)
    inside = await token_of(world, "developer", cluster_wide=False)
    nothing = await token_of(world, "stranger", cluster_wide=None)
    why = f"/api/v1alpha1/why?kind=pvc&namespace={world.namespace}&name=data"
    own = f"pvc/{world.namespace}/data"
    async with page(world) as browser:

        async def view(header: dict[str, str], namespace: str = "") -> dict[str, Any]:
            answer = await browser.get(f"{VIEW}?namespace={namespace}", **header)
            assert answer.status == 200, answer.text
            return answer.document  # type: ignore[no-any-return]

        # The API server learns of new rights by a watch of its own.
        all_of_it = await eventually(partial(view, everything), lambda seen: own in seen["pending"], "all may be read")
        assert world.name("disk") in all_of_it["volumes"]
        look = partial(view, inside, world.namespace)
        mine = await eventually(look, lambda seen: own in seen["pending"], "the namespace may be read")
        assert mine["pending"].keys() == {own}
        assert mine["volumes"] == mine["nodes"] == {}
        assert {"resource": "persistentvolumes", "because": "forbidden"} in mine["unreadable"]
        none = await view(nothing, world.namespace)
        assert none["pending"] == none["volumes"] == none["nodes"] == none["pods"] == {}
        assert "WaitForFirstConsumer" in (await browser.get(why, **everything)).document["text"]
        assert (await browser.get(why, **nothing)).status == 403
        late = f"pvc/{world.namespace}/late"
        async with browser.stream(**everything) as events:
            assert (await anext(events))[0] == "view"
            await world.admin.create(claim(world.namespace, "late", claim_spec(disks)))
            while late not in (await anext(events))[1].get("pending", {}):
                pass
        for rejected in ({}, {"Authorization": "Bearer nobody"}):
            assert (await browser.get(VIEW, **rejected)).status == 401
            assert (await browser.get(why, **rejected)).status == 401
