"""What all pages say is true where it can be seen: links, files by room, and commands."""

import re
import shlex
from pathlib import Path

import pytest

from foretell.cli.main import run

ROOT = Path(__file__).parents[2]
FOLDERS = ("data", "model", "runtime", "export", "protos", "server", "client", "jobs", "cli")
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (
        *ROOT.glob("*.md"),
        *(page for folder in (*FOLDERS, "tests") for page in (ROOT / folder).rglob("*.md")),
    )
)


def commands():
    """Of all pages, as a shell would split them."""
    for page in PAGES:
        blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            words = shlex.split(line.partition(" > ")[0], comments=True)
            if words[:1] == ["foretell"]:
                yield pytest.param(words[1:], id=f"{page}: {' '.join(words[1:3])}")


def anchors(page):
    """What stands behind `#` in links to its headings, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    lost = []
    for link in re.findall(r"\]\((?!http)([^)]+)\)", (ROOT / page).read_text()):
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_stand_where_the_tables_say(folder):
    """A line in bold opens a room; files below it are in it, files before the first one in none."""
    told, lost = 0, []
    for page in (ROOT / folder).glob("*.md"):
        tables = re.findall(r"^\| file \| wh.*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(), re.M)
        for table in tables:
            room = ROOT / folder
            for row in table.splitlines():
                if opened := re.match(r"\| \*\*`(\w+)/`\*\*", row):
                    room = ROOT / folder / opened[1]
                    continue
                for name in re.findall(r"`([^`]+)`", row.split(" | ")[0]):
                    told += 1
                    if not [*room.glob(name), *room.glob(f"{name}.py")]:
                        lost.append((room / name).relative_to(ROOT).as_posix())
    assert told, f"no page of {folder}/ has a table of its files"
    assert not lost, f"pages of {folder}/ name files that aren't there: {lost}"


@pytest.mark.parametrize("command", [*commands()])
def test_every_command_exists_with_its_options(command, capsys):
    """`--help` at the end parses all that stands before it, and runs nothing."""
    assert run([*command, "--help"]) == 0
    assert "Usage: foretell" in capsys.readouterr().out
