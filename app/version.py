"""Which version of a package is installed. Knows nothing else."""

from importlib import metadata


def version(package: str = "stampo") -> str:
    """Return the version of an installed package, or "unknown", as when Stampo is run from a source tree."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
