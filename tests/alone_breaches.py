"""usage: alone_breaches.py COMPILER: alone.py finds each kind of file that compiles only after another, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

compiler = sys.argv[1]
GOOD = '#include "first.hpp"\n\nint NAME() { return length("NAME"); }\n'
FILES = {
    "include/rankmesh/core/error.hpp": "#pragma once\n#include <string>\n",
    "src/first.hpp": "#pragma once\n#include <rankmesh/core/error.hpp>\ninline int length(const std::string& text) { return int(text.size()); }\n",
    "src/before.cpp": "#include <algorithm>\n#include <numeric>\n" + GOOD.replace("NAME", "before"),
    **{f"src/{name}.cpp": GOOD.replace("NAME", name) for name in ("first", "second", "third", "fourth")},
}
# What a file is replaced by, and what is said of it.
BREACHES = {
    "a standard header": (
        {"src/fourth.cpp": '#include "first.hpp"\nint fourth(int a) { return std::gcd(a, 2); }\n'},
        "no member named 'gcd' in namespace 'std'",
    ),
    "a header of the project": ({"src/fourth.cpp": 'int fourth() { return length("fourth"); }\n'}, "undeclared identifier 'length'"),
    "a standard header of a private header, which a precompiled one has": (
        {
            "src/needs.hpp": "#pragma once\ninline int needs(const std::string& text) { return int(text.size()); }\n",
            "src/fourth.cpp": '#include "needs.hpp"\n#include "first.hpp"\nint fourth() { return needs("fourth"); }\n',
        },
        "undeclared identifier 'std'",
    ),
    "a template that another file defines": (
        {
            "src/template.hpp": "#pragma once\ntemplate <class T> T twice(T value);\n",
            "src/before.cpp": '#include "template.hpp"\ntemplate <class T> T twice(T value) { return 2 * value; }\n',
            "src/fourth.cpp": '#include "template.hpp"\nint fourth() { return twice(2); }\n',
        },
        "instantiation of function 'twice<int>' required here, but no definition is available",
    ),
}


def said(of: dict[str, str]) -> tuple[int, str]:
    """What alone.py ends with and says of a project with these files, after it has been seen that they compile as one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, text in of.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        unity = root / "unity_0_cxx.cxx"
        unity.write_text("".join(f'#include "{file}"\n' for file in sorted((root / "src").glob("*.cpp"))))
        options = [compiler, "-std=c++20", "-Werror", f"-I{root}/include", f"-I{root}/src"]
        subprocess.run([*options, "-fsyntax-only", unity], check=True)
        entry = {"directory": folder, "file": str(unity), "command": " ".join([*options, "-o", "x.o", "-c", str(unity)])}
        (root / "commands.json").write_text(json.dumps([entry]))
        alone = Path(__file__).with_name("alone.py")
        done = subprocess.run(
            [sys.executable, alone, compiler, root / "commands.json", root], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr


code, text = said(FILES)
assert code == 0, text
assert text == "5 sources, 5 of them with one of 1 precompiled headers\n", text
for kind, (changed, sentence) in BREACHES.items():
    code, text = said({**FILES, **changed})
    assert code == 1, f"{kind}: {text}"
    assert sentence in text, f"{kind}: {text}"
    assert text.endswith("are compiled as one: src/fourth.cpp\n"), f"{kind}: {text}"
