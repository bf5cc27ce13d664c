# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs: pages from outside docs, the reference of C++ and Python, and links to files of the repository.

A page of docs is written for a reader of the repository, so it links to `../examples/pi.cpp`. In the site that file is a page of its
own, under `source`.
"""

import os
import pathlib
import posixpath
import re
import subprocess
import sys

from mkdocs.structure.files import File, InclusionLevel

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "site_pages"))

import cpp  # noqa: E402

OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".sh": "sh", ".txt": "cmake"}
LINK = re.compile(r"(\]\()((?!https?:|mailto:|#)[^)#\s]+)(#[^)\s]*)?\)")
TREE = pathlib.Path(os.environ.get("RANKMESH_PYTHON_TREE", ROOT / "build/release/python"))
COMMAND = TREE.parent / "bin" / "rankmesh"
PYTHON = ["rankmesh", "rankmesh.torch", "rankmesh.torch.data", "rankmesh.jax", "rankmesh.framework"]
FOLDERS = {
    "core": "Meshes, groups and placements",
    "engine": "Worlds, joins and communicators",
    "cluster": "Clusters, and what a mesh costs on them",
    "plan": "Layouts of a training job",
    "view": "Pictures",
    "report": "Texts of the command",
    "convert": "Settings of frameworks",
    "explain": "Flight records and their errors",
    "interop": "DLPack, MPI and NCCL",
    "frameworks": "Groups and names of other frameworks",
}


def place_of(path):
    """The page of the site that shows a file or folder of the repository."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        if (ROOT / path).is_dir():
            path = min(str(page.relative_to(ROOT)) for page in (ROOT / path).glob("*.md"))
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def path_of(page):
    """The file of the repository that a page shows."""
    for path, place in OUTSIDE.items():
        if place == page:
            return path
    return f"docs/{page}"


def split(text):
    """Pieces of Markdown: those with even indices lie outside of fenced code."""
    return re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.M | re.S)


def linked(path, text):
    """The files and folders of the repository that a page of it links to."""
    folder = posixpath.dirname(path)
    for piece in split(text)[::2]:
        for match in LINK.finditer(piece):
            yield posixpath.normpath(posixpath.join(folder, match[2]))


def source_page(path):
    """A file as code, or a folder as a list of its files."""
    here = ROOT / path
    if here.is_dir():
        rows = [f"- [{each.name}]({posixpath.basename(path)}/{each.name}.md)" for each in files_of(here)]
        text = "\n".join(rows)
    else:
        text = f"```{LANGUAGES.get(here.suffix, 'text')}\n{here.read_text(encoding='utf-8').rstrip()}\n```"
    return f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{text}\n"


def files_of(folder):
    return sorted(each for each in folder.iterdir() if each.suffix in LANGUAGES and each.name != "CMakeLists.txt")


def frameworks():
    """The public modules that have the names of another framework."""
    files = [*TREE.glob("rankmesh/*.py"), *TREE.glob("rankmesh/*/*.py")]
    names = {".".join(file.relative_to(TREE).with_suffix("").parts) for file in files}
    return sorted(name for name in names - set(PYTHON) if not re.search(r"\._", name) and not name.startswith("rankmesh.torch."))


def help_of_command():
    """The help of every subcommand, as one page."""
    ask = lambda *words: subprocess.run([COMMAND, *words], check=True, capture_output=True, text=True).stdout.rstrip()  # noqa: E731
    whole = ask("--help")
    parts = [f"## {name}\n\n```text\n{ask(name, '--help')}\n```" for name in re.findall(r"^  ([a-z]+)  ", whole, re.M)]
    return "\n\n".join(["# Options of the command", f"```text\n{whole}\n```", *parts]) + "\n"


def on_config(config):
    """Asks doxygen and the command, and puts the pages of the reference into the navigation."""
    headers, others = cpp.pages(ROOT), frameworks()
    generated = {f"reference/{header}.md" if "/" in header else "reference/c.md": text for header, text in headers.items()}
    generated |= {f"reference/python/{module}.md": f"# {module}\n\n::: {module}\n" for module in PYTHON + others}
    for place in [place for place in generated if "/frameworks/" in place or place.split("/")[-1][:-3] in others]:
        generated[place] = "---\nsearch:\n  boost: 0.2\n---\n\n" + generated[place]  # many frameworks have the same names
    generated["reference/options.md"] = help_of_command()
    generated["reference/cpp.md"] = overview(headers)
    apis = {"C++": ["reference/cpp.md"], "Python": [{module: f"reference/python/{module}.md"} for module in PYTHON]}
    apis["Python"].append({FOLDERS["frameworks"]: [{name.removeprefix("rankmesh."): f"reference/python/{name}.md"} for name in others]})
    for folder, title in FOLDERS.items():
        pages = [
            {header.removeprefix(folder + "/"): f"reference/{header}.md"} for header in sorted(headers) if header.startswith(folder + "/")
        ]
        apis["C++"].append({title: pages})
    fill(config.nav, apis)
    config.extra["generated"] = generated
    return config


def overview(headers):
    """A page with a line for each C++ header."""
    parts = ["# C++ API", "`#include <rankmesh/HEADER>`. [Build and link](../build.md) has the targets of CMake."]
    for folder, title in FOLDERS.items():
        rows = [each for each in sorted(headers) if each.startswith(folder + "/")]
        lines = [f"- [{each}]({each}.md): {' '.join(cpp.about(ROOT / 'include/rankmesh' / each).split())}" for each in rows]
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def fill(nav, apis):
    """Replaces the entries `Python API: []` and `C++ API: []` by lists."""
    for entry in nav:
        for title, value in entry.items() if isinstance(entry, dict) else ():
            if title.endswith(" API"):
                entry[title] = apis[title.removesuffix(" API")]
            elif isinstance(value, list):
                fill(value, apis)


def on_files(files, config):
    for path, place in OUTSIDE.items():
        alone = "---\nhide: [navigation]\n---\n\n" if place == "index.md" else ""
        files.append(File.generated(config, place, content=alone + (ROOT / path).read_text(encoding="utf-8")))
    for place, text in config.extra.pop("generated").items():
        files.append(File.generated(config, place, content=text))
    wanted = set()
    for page in files.documentation_pages():
        wanted.update(linked(path_of(page.src_uri), page.content_string))
    for path in [path for path in wanted if (ROOT / path).is_dir()]:
        wanted.update(str(each.relative_to(ROOT)) for each in files_of(ROOT / path))
    for path in sorted(wanted):
        if not path.startswith(("docs/", "..")) and path not in OUTSIDE and (ROOT / path).exists():
            page = File.generated(config, place_of(path), content=source_page(path))
            page.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(page)
    return files


def on_page_markdown(markdown, page, config, files):
    """Points links at the pages of the site, and writes lists and fences as Python-Markdown reads them."""
    if page.file.src_uri.startswith(("source/", "reference/")):
        return markdown
    path = path_of(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def moved(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))
        place = posixpath.relpath(place_of(target), here or ".")
        return f"{match[1]}{place}{match[3] or ''})"

    def titled(match):
        target = ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1]))
        title = re.search(r"^# ([^:\n]*)", target.read_text(encoding="utf-8"), re.M)
        return f"[{title[1]}]({match[1]}"

    pieces = split(markdown)
    for at, piece in enumerate(pieces):
        if at % 2:
            pieces[at] = piece.replace("```console gloo", "```console", 1)
        else:
            piece = re.sub(r"^((?!\s*[-*0-9|]).+)\n(?=[-*] |\d+\. )", r"\1\n\n", piece, flags=re.M)
            piece = re.sub(r"^  (?=[-*] )", "    ", piece, flags=re.M)
            piece = re.sub(r"\[[\w./-]+\.md\]\(([\w./-]+\.md)", titled, piece)  # in the site a page has a title, not a file
            pieces[at] = LINK.sub(moved, piece)
    return "".join(pieces)
