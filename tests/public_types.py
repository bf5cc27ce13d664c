# SPDX-License-Identifier: Apache-2.0
"""usage: public_types.py INCLUDE

Fails where a public function returns a type of namespace detail: nobody could name what it gives.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

RETURNS = re.compile(
    r"^\s*(?:(?:static|constexpr|inline|friend|virtual|RANKMESH_EXPORT)\s+)*(?:const\s+)?(?:std::\w+<[^()]*)?\bdetail::[^()=;]*[\s&*>](?:operator\W+|\w+)\("
)
SCOPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(class|struct)\s+(?:RANKMESH_EXPORT\s+)?\w+[^;()]*\{$")


def breaches(text: str) -> list[str]:
    """The lines that declare one."""
    found: list[str] = []
    scopes: list[tuple[int, bool]] = []  # by indentation: whether what is declared there is public
    in_detail = False
    for line in text.splitlines():
        if line.startswith("namespace detail {") or line.startswith("}  // namespace detail"):
            in_detail = line.startswith("namespace")
        indent = len(line) - len(line.lstrip())
        while scopes and line.strip().startswith("}") and indent <= scopes[-1][0]:
            scopes.pop()
        if line.strip() in ("public:", "private:", "protected:") and scopes:
            scopes[-1] = (scopes[-1][0], line.strip() == "public:")
        if kind := SCOPE.match(line):
            scopes.append((indent, kind[1] == "struct"))
        elif not in_detail and all(public for _, public in scopes) and RETURNS.match(line):
            found.append(line.strip())
    return found


def main() -> int:
    assert breaches("class A {\npublic:\n    const detail::B& b() const;\nprivate:\n    detail::B c();\n};") == [
        "const detail::B& b() const;"
    ]
    assert breaches("std::span<const detail::B> f(int);")
    assert not breaches("namespace detail {\ndetail::B f();\n}  // namespace detail")
    found = 0
    for header in sorted(Path(sys.argv[1]).rglob("*.hpp")):
        for line in breaches(header.read_text(encoding="utf-8")):
            print(f"{header}: returns a type of namespace detail: {line}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
