"""Compares what the API server serves with what a component needs, before it reads anything there."""

import logging
from random import Random
from typing import Final

from kube.backoff import backoff
from kube.client.transport import Transport
from kube.clock import Clock
from kube.errors import KubeError
from kube.objects.api_resource import Resource
from prebinder.errors import CommandError
from prebinder.preflight.cluster_checks import ApiOffer, offer_of
from prebinder.preflight.doctor_checks import CheckState, check_served, check_version, unserved
from prebinder.preflight.requirements import Requirements

_BACKOFF_BASE: Final = 0.5
_BACKOFF_CAP: Final = 10.0

logger = logging.getLogger(__name__)


async def kinds_to_do_without(
    transport: Transport, wanted: Requirements, clock: Clock, rng: Random
) -> tuple[Resource, ...]:
    """Return the optional kinds that are not served; the consequences are logged.

    Waits as long as the server does not respond. Raises CommandError if a required kind is not served.
    """
    offer = await _patient_offer(transport, wanted, clock, rng)
    version = check_version(offer.version)
    if version.state is not CheckState.OK:
        logger.warning("Untested Kubernetes version", extra={"version": version.found, "effect": version.meaning})
    for check in check_served(offer.served, wanted.kinds):
        if check.state is not CheckState.OK:
            logger.warning(
                "The API server does not serve everything",
                extra={"subject": check.subject, "found": check.found, "effect": check.meaning},
            )
    missing = unserved(offer.served, wanted.kinds)
    vital = [kind for kind in missing if wanted.kinds[kind].vital]
    if vital:
        names = ", ".join(f"{kind.plural} ({kind.api_version})" for kind in vital)
        raise CommandError(f"the API server does not serve {names}; run `pvc-prebinder doctor` for details")
    return missing


async def _patient_offer(transport: Transport, wanted: Requirements, clock: Clock, rng: Random) -> ApiOffer:
    failures, complaint = 0, ""
    while True:
        try:
            offer = await offer_of(transport, wanted.kinds)
            if offer.version:
                return offer
            problem = "it does not report its version"
        except KubeError as error:
            problem = str(error)
        if problem != complaint:
            logger.warning("Waiting for the API server", extra={"error": problem})
        failures, complaint = failures + 1, problem
        await clock.sleep(backoff(failures, _BACKOFF_BASE, _BACKOFF_CAP, rng.random()))
