"""Links between the pages lead to a page and a heading that exist, and a reader finds every page."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.places import ROOT

PAGES: Final = sorted(
    (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(page for folder in ("docs", "charts", "examples", "deploy") for page in (ROOT / folder).rglob("*.md")),
    )
)
_FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", _FENCED.sub("", page.read_text())))


def target(page: Path, link: str) -> Path:
    name = link.partition("#")[0]
    return (page.parent / name).resolve() if name else page


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page(page: Path) -> None:
    assert [link for link in links(page) if not target(page, link).exists()] == []
    within = [link for link in links(page) if "#" in link and target(page, link).suffix == ".md"]
    assert [link for link in within if link.partition("#")[2] not in anchors(target(page, link))] == []


def test_a_reader_of_the_readme_finds_every_page() -> None:
    found, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        found.add(page)
        ahead += [other for link in links(page) if (other := target(page, link)) in PAGES and other not in found]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in found] == []
