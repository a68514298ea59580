"""What pyproject.toml cannot say: the README as the index shows it, and addresses that come from
git."""

import re
import subprocess
from email import message_from_string
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PAPERS = {
    "Paper: bilevel coresets": "https://jmlr.org/papers/v25/21-1132.html",
    "Paper: SVM coresets": "https://arxiv.org/abs/2002.06469",
}


def repository():
    """The web address of the repository that this checkout was cloned from; "" where there is
    none."""
    try:
        command = ["git", "-C", str(ROOT), "config", "remote.origin.url"]
        origin = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        # no git
        return ""
    found = re.fullmatch(r"(?:https://|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?", origin)
    return f"https://{found[1]}/{found[2]}" if found else ""


def absolute(text, base):
    """Markdown whose links work anywhere: relative ones under `base`, or plain text where there is
    no base."""

    def link(found):
        image, label, target = found.groups()
        if re.match(r"https?:|#", target):
            return found[0]
        if not base:
            return "" if image else label
        return f"{image}[{label}]({base}/{'raw' if image else 'blob'}/HEAD/{target})"

    text = re.sub(
        r'<img src="([^"]+)"([^>]*)>', rf'<img src="{base}/raw/HEAD/\1"\2>' if base else "", text
    )
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def main():
    base = repository()
    packed = ROOT / "PKG-INFO"
    urls = dict(PAPERS)
    if base:
        urls |= {
            "Source": base,
            "Issues": f"{base}/issues",
            "Changelog": f"{base}/blob/HEAD/CHANGELOG.md",
        }
        # Where `.github/workflows/pages.yml` puts the site.
        if on_github := re.fullmatch(r"https://github\.com/([^/]+)/(.+)", base):
            urls["Documentation"] = f"https://{on_github[1]}.github.io/{on_github[2]}"
    description = absolute((ROOT / "README.md").read_text(encoding="utf-8"), base)
    # an sdist has what the checkout knew
    if packed.is_file():
        known = message_from_string(packed.read_text(encoding="utf-8"))
        description = known.get_payload()
        urls = dict(line.split(", ", 1) for line in known.get_all("Project-URL", []))
    setup(
        long_description=description,
        long_description_content_type="text/markdown",
        project_urls=urls,
    )


if __name__ == "__main__":
    main()
