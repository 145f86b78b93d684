"""The bill of materials: CycloneDX 1.6 in JSON, of what the image contains beside its base."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from release.lock import Pin

SPECIFICATION: Final = "1.6"


def bill_of_materials(version: str, revision: str, time: int, packages: Sequence[Pin]) -> str:
    """Return the document. Equal arguments give equal texts, so the serial number is made from what it describes.

    `time` is that of the commit, in seconds since 1970. A package has no hash of its own: the lock permits several
    files of it, which are listed as properties.
    """
    root = f"pkg:pypi/pvc-prebinder@{version}"
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'{root}+{revision}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "pvc-prebinder",
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "revision", "value": revision}],
            },
        },
        "components": [_component(each) for each in packages],
        "dependencies": [{"ref": root, "dependsOn": [each.purl for each in packages]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _component(pin: Pin) -> dict[str, Any]:
    properties = [{"name": "pip:hash", "value": f"sha256:{each}"} for each in pin.hashes]
    if pin.marker:
        properties.insert(0, {"name": "pip:marker", "value": pin.marker})
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "scope": "optional" if pin.marker else "required",
        "properties": properties,
    }
