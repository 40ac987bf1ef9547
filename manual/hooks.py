"""What MkDocs calls while it builds the manual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from manual import api_reference, command_reference, gallery, repository_pages, study_reference
from manual.foreign_hosts import list_foreign_loads
from manual.search_index import write_index
from manual.tutorials import FOLDER, run_tutorials


def on_config(config: Any) -> None:
    """The Python reference has a page for every public module: `reference/api` in the navigation stands for all of them."""
    reference = next(section["Reference"] for section in config.nav if "Reference" in section)
    entry = next(entry for entry in reference if api_reference.FOLDER in entry.values())
    entry["Python"] = [{name: f"{api_reference.FOLDER}/{name}.md"} for name in api_reference.list_modules()]


def on_files(files: Any, config: Any) -> None:
    """Add pages that are made from the code or live elsewhere in the repository, and tutorials with their results."""
    generated = {
        **{page: repository_pages.read_page(page) for page in repository_pages.PAGES},
        **api_reference.write_pages(),
        command_reference.PAGE: command_reference.write_page(),
        study_reference.PAGE: study_reference.write_page(),
        gallery.PAGE: gallery.write_page(),
    }
    for page, tutorial in run_tutorials().items():
        files.remove(files.get_file_from_path(page))
        generated |= {page: tutorial.text, **{f"{FOLDER}/{name}": image for name, image in tutorial.figures.items()}}
    for page, content in generated.items():
        files.append(File.generated(config, page, content=content))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that leave docs/ become words."""
    return repository_pages.move_links(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Write the search index; refuse a manual that would load from another host, or whose search does not know a page."""
    site = Path(config.site_dir)
    for what, found in (
        ("pages load from other hosts", list_foreign_loads(site)),
        ("the search does not know pages", write_index(site)),
    ):
        if found:
            raise PluginError(f"{what}:\n" + "\n".join(found))
