"""What the installed package says of itself: its version, and where its site is."""

from functools import cache
from importlib.metadata import metadata, version

__version__ = version("handful")


@cache
def site_address():
    """The address of the site that the package was installed with; "" where it has none."""
    for line in metadata("handful").get_all("Project-URL", []):
        label, _, address = line.partition(", ")
        if label == "Documentation":
            return address
    return ""
