"""Makes a release: `python -m release`, or `make release`. Files are written to a new directory and nowhere else."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.build import binaries, image
from devcluster.errors import ClusterError
from release import bill, distributions, lock, plugin, provenance
from release.errors import ReleaseError
from release.source import Source, source_of
from tests.manifests.tools import HELM

_SITE = "https://pvc-prebinder.cloud.example"


def make(options: argparse.Namespace, directory: Path) -> list[Path]:
    """Write every file of the release to a directory that does not exist yet; return them."""
    signer = provenance.Signer(options.key) if options.key else None
    with TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        source = source_of(scratch / "source", domain=options.domain, origin=options.source)
        directory.mkdir(parents=True)
        files = _built(source, options, directory, scratch)
        parameters = {"domain": options.domain or "", "base": options.base if options.image else ""}
        statement = json.dumps(provenance.statement(source, files, parameters), indent=2) + "\n"
        files.append(_write(directory / provenance.STATEMENT, statement))
        if signer is not None:
            files.append(_write(directory / "provenance.dsse.json", signer.envelope(statement.encode())))
        sums = provenance.sums(files)
        files.append(_write(directory / provenance.SUMS, sums))
        if signer is not None:
            files.append(_write(directory / f"{provenance.SUMS}.sig", signer.signature(sums.encode())))
            files.append(_write(directory / "signing-key.pub", signer.public_key()))
    return files


def _built(source: Source, options: argparse.Namespace, directory: Path, scratch: Path) -> list[Path]:
    packages = list(lock.pins((source.directory / lock.LOCK).read_text(encoding="utf-8")))
    version = version_of("pvc-prebinder")
    made = distributions.distributions(source, directory)
    (wheel,) = (path for path in made if path.suffix == ".whl")
    made.append(distributions.chart(source, binaries.ensure([HELM["helm-4"]])["helm-4"], directory))
    archives = plugin.archives(source, wheel, packages, directory, scratch)
    made += archives
    made.append(_write(directory / "pvc-why.yaml", plugin.manifest(version, source, archives, options.download)))
    bom = bill.bill_of_materials(version, source.revision, source.time, packages)
    made.append(_write(directory / f"pvc-prebinder-{version}.cdx.json", bom))
    if options.image:
        archive = directory / f"pvc-prebinder-{version}-image-{options.image.replace('/', '-')}.tar"
        recipe = image.Recipe(source.directory, source.revision, source.origin, options.image, "oci-archive")
        sys.stdout.write(f"{image.build_image(options.base, archive, recipe)}\n")
        made.append(archive)
    return made


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--domain", help="yours, for the annotation prefix, the configuration's group and the chart")
    parser.add_argument(
        "--source", default="https://pvc-prebinder.cloud.example/source", help="where the repository is"
    )
    parser.add_argument(
        "--download", default="https://pvc-prebinder.cloud.example/download", help="where files will be"
    )
    parser.add_argument("--key", type=Path, help="an ECDSA key on P-256 in PEM form, to sign with")
    parser.add_argument("--image", metavar="PLATFORM", help="build the image for linux/amd64 or linux/arm64, too")
    parser.add_argument("--base", default=image.DEFAULT_BASE, help="the image's base, pinned by digest (%(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("dist/release"))
    options = parser.parse_args(arguments)
    try:
        if options.directory.exists():
            raise ReleaseError(f"{options.directory} exists: remove it, or name another with --directory")
        files = make(options, options.directory.absolute())
    except (ReleaseError, ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write("".join(f"{path.name}  {path.stat().st_size:,} bytes\n" for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
