"""usage: reuse.py THEIR-BUILD THEIR-SOURCE OUR-BUILD OUR-SOURCE COMPILER...

A compiler launcher that takes the object of another build by ninja where that compiled the same files in the same words,
and none of them has changed since; else it compiles. Our folders may be relative to where the compiler runs. Where ours and
their source are two folders, that both hold the same is for the caller to see to."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

theirs = sys.argv[1:3]
ours = [os.path.abspath(folder) for folder in sys.argv[3:5]]
words = sys.argv[5:]


def in_theirs(text: str) -> str:
    """A text of ours as it reads in their folders."""
    return text.replace(ours[0], theirs[0]).replace(ours[1], theirs[1])


def theirs_for(path: str) -> str:
    """The path in their folders that stands where this one stands in ours, itself where it is in neither."""
    for our, their in zip(ours, theirs, strict=True):
        if path.startswith(our + "/"):
            return their + path[len(our) :]
    return path


def that_matter(said: list[str]) -> list[str]:
    """The words that decide what an object holds."""
    return [word for word in said if word != "-Werror" and not word.startswith("--param=ggc-")]


def option(name: str) -> str:
    return words[words.index(name) + 1]


def same_file(our: Path, their: Path) -> bool:
    """True if both files, and those of the build that they include, hold the same."""
    if not their.is_file() or in_theirs(our.read_text()) != their.read_text():
        return False
    made = re.findall(f'#include "({re.escape(ours[0])}/[^"]+)"', our.read_text())
    return all(same_file(Path(each), Path(theirs_for(each))) for each in made)


def read_for(made: str) -> list[Path]:
    """The files that their object was made of; none if one is newer, or their build is not by ninja."""
    ninja = re.search("^CMAKE_MAKE_PROGRAM:.*=(.*ninja.*)$", Path(theirs[0], "CMakeCache.txt").read_text(), re.MULTILINE)
    if not ninja:
        return []
    ask = [ninja[1], "-n", "-C", theirs[0], "-t", "deps", made]
    first, *rest = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    read = [Path(theirs[0], line.strip()) for line in rest if line]
    when = Path(theirs[0], made).stat().st_mtime_ns
    fresh = "(VALID)" in first and all(each.is_file() and each.stat().st_mtime_ns <= when for each in read)
    return read if fresh else []


def object_of_theirs() -> tuple[Path, list[Path]] | None:
    """The object, and the files that it was made of."""
    source = Path(words[-1])
    if "-o" not in words:
        return None
    their_source = Path(theirs_for(str(source)))
    described = Path(theirs[0], "compile_commands.json")
    commands = json.loads(described.read_text()) if described.is_file() else []
    command = next((each["command"] for each in commands if each["file"] == str(their_source)), "")
    their_words = shlex.split(command)
    if not their_words or not same_file(source, their_source):
        return None
    name = their_words[their_words.index("-o") + 1]
    made = Path(theirs[0], name)
    compiler = words.index(their_words[0]) if their_words[0] in words else 0  # behind another launcher
    depends = words.index("-MD") if "-MD" in words else words.index("-o")
    said = words[compiler:depends] + words[words.index("-o") + 2 :]
    their_said = their_words[: their_words.index("-o")] + their_words[their_words.index("-o") + 2 :]
    if that_matter([in_theirs(word) for word in said]) != that_matter(their_said):
        return None
    read = read_for(name) if made.is_file() else []
    return (made, read) if read else None


if taken := object_of_theirs():
    found, read = taken
    shutil.copyfile(found, option("-o"))
    if "-MF" in words:
        files = [words[-1], *(str(each).replace(" ", "\\ ") for each in read)]
        Path(option("-MF")).write_text(f"{option('-o')}: {' '.join(files)}\n")
    print(f"reused {found.name}")
else:
    os.execvp(words[0], words)
