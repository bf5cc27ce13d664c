# SPDX-License-Identifier: Apache-2.0
"""The C++ and C reference: doxygen reads the public headers, and each header becomes a Markdown page."""

import itertools
import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree as xml

SETTINGS = """
INPUT = include
RECURSIVE = YES
FILE_PATTERNS = *.hpp *.h
EXCLUDE_PATTERNS = */detail/*
EXCLUDE_SYMBOLS = detail::* *::detail::*
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = NO
AUTOLINK_SUPPORT = NO
SORT_MEMBER_DOCS = NO
INCLUDE_GRAPH = NO
INCLUDED_BY_GRAPH = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = RANKMESH_EXPORT= RANKMESH_C_API= RANKMESH_CONVERT_EXPORT=
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
QUIET = YES
"""


def copied(root, folder):
    """Copies the headers as doxygen reads them best: each law as a paragraph, and lines such as `dp=2 | coord(1) -> dp=1` as code."""
    for path in (root / "include").rglob("*.h*"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"\A(//[^\n]*\n)+", "", text)  # `about` shows the top
        text = re.sub(r"^( *///) Law: ", r"\1\n\1 Law: ", text, flags=re.M)
        code = re.compile(r"^( *///) (.* \| .* -> .*)\n(?:\1 (.* \| .* -> .*)\n)*", re.M)
        text = code.sub(lambda found: f"{found[1]}\n" + re.sub(r"^( *///) ", r"\1     ", found[0], flags=re.M) + f"{found[1]}\n", text)
        to = folder / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")


def escaped(text):
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


def inline(element):
    """The text of an element, as Markdown."""
    words = escaped(element.text or "")
    for child in element:
        inside = "".join(child.itertext())
        if child.tag == "computeroutput":
            words += f"`{inside}`"
        elif child.tag in ("ndash", "mdash"):
            words += "--" if child.tag == "ndash" else "---"
        elif child.tag == "linebreak":
            words += "\n"
        elif child.tag in ("bold", "emphasis"):
            words += f"*{escaped(inside)}*"
        else:
            words += inline(child)
        words += escaped(child.tail or "")
    return words


def paragraphs(element, indent=""):
    """Paragraphs, lists and examples, as Markdown blocks."""
    blocks = []
    words = escaped(element.text or "")
    for child in element:
        if child.tag in ("para", "verbatim", "itemizedlist", "orderedlist", "simplesect", "parameterlist"):
            blocks.append(indent + words.strip() if words.strip() else "")
            words = ""
            if child.tag == "verbatim":
                lines = "".join(child.itertext()).rstrip().splitlines()
                language = "text" if " | " in lines[0] else "cpp"
                blocks.append("\n".join(indent + line.rstrip() for line in ["```" + language, *lines, "```"]))
            elif child.tag in ("itemizedlist", "orderedlist"):
                for item in child:
                    blocks.append(f"{indent}- {paragraphs(item, indent + '    ').strip()}")
            else:
                blocks.append(paragraphs(child, indent))
        else:
            words += inline_one(child)
        words += escaped(child.tail or "")
    blocks.append(indent + words.strip() if words.strip() else "")
    return "\n\n".join(block for block in blocks if block.strip())


def inline_one(child):
    outer = xml.Element("para")
    outer.append(child)
    tail, child.tail = child.tail, None
    text = inline(outer)
    child.tail = tail
    return text


def described(member):
    brief, detailed = member.find("briefdescription"), member.find("detaileddescription")
    return "\n\n".join(text for text in (paragraphs(brief), paragraphs(detailed)) if text)


def plain(text):
    """Code of doxygen with the blanks of ours: `const Mesh& mesh`."""
    text = re.sub(r"\s+", " ", text).replace("< ", "<").replace(" >", ">").strip()
    text = re.sub(r" ?([&*]+|\.\.\.) ?(?=[\w)(,>]|$)", r"\1 ", text).replace(" )", ")").replace(" ,", ",").replace(" >", ">")
    return re.sub(r"(?<=[\w>)}])=(?=[\w{\"\'-])", " = ", text).strip()


def template(member):
    parameters = member.find("templateparamlist")
    if parameters is None:
        return ""
    words = []
    for parameter in parameters:
        parts = [plain("".join(parameter.find(tag).itertext())) for tag in ("type", "declname") if parameter.find(tag) is not None]
        default = parameter.find("defval")
        words.append(" ".join(parts) + (" = " + plain("".join(default.itertext())) if default is not None else ""))
    return f"template <{', '.join(words)}>\n"


def declaration(member):
    """A member as its header declares it, without the names of its scopes."""
    kind = member.get("kind")
    name = member.findtext("name")
    if kind == "enum":
        values = [value.findtext("name") for value in member.iter("enumvalue")]
        return f"enum {'' if name.startswith('@') else name} {{ {', '.join(values)} }}".replace("  ", " ")
    kind_of = plain("".join(member.find("type").itertext())) if member.find("type") is not None else ""
    if kind == "typedef":
        if member.find("location").get("file").endswith(".h") or "(" in kind_of:
            return plain(member.findtext("definition"))
        return template(member) + f"using {name} = {kind_of}"
    words = ["static"] if member.get("static") == "yes" and kind == "function" else []
    words += [kind_of] if kind_of else []
    start = " ".join(words)
    text = f"{start} {name}".strip() + plain(member.findtext("argsstring") or "")
    if kind == "variable" and (value := member.find("initializer")) is not None:
        value = plain("".join(value.itertext()))
        text += " " + value if len(value) < 60 else ""
    return template(member) + text


def members_of(compound):
    """The public members, in the order of the header; what is not described stands with the one before it of that name."""
    found = []
    for member in compound.iter("memberdef"):
        if member.get("prot") != "public" or member.get("kind") in ("friend", "define") or not member.findtext("name"):
            continue
        if "detail::" in member.findtext("name"):
            continue
        found.append((int(member.find("location").get("line")), member))
    rows = []
    for _, member in sorted(found, key=lambda pair: pair[0]):
        name = member.findtext("name")
        if rows and not described(member) and rows[-1][0] == name:
            rows[-1][1].append(member)
        else:
            rows.append((name, [member]))
    return rows


def section(rows, level):
    lines = []
    bare = []
    has_fields = any(members[0].get("kind") == "variable" and described(members[0]) for _, members in rows)
    for name, members in rows:
        text = described(members[0])
        code = [declaration(member) for member in members]
        if not text and members[0].get("kind") == "variable" and has_fields:
            lines += [f"- `{each}`" for each in code]  # in the order of memory
            continue
        if not text and members[0].get("kind") != "enum":
            bare += code
            continue
        if members[0].get("kind") == "variable":
            lines.append(f"- `{code[0]}`: " + text.replace("\n", "\n    "))
            continue
        heading = [] if name.startswith("@") else [f"{'#' * level} `{name}`"]  # an enum without a name stands with its type
        lines += [*heading, "```cpp\n" + "\n".join(code) + "\n```", text]
        for value in members[0].iter("enumvalue"):
            if meaning := described(value):
                lines.append(f"- `{value.findtext('name')}`: {' '.join(meaning.split())}")
    if bare:
        lines = ["```cpp\n" + "\n".join(bare) + "\n```", *lines]
    return lines


def about(path):
    """The comment at the top of a header, behind its license."""
    lines = itertools.takewhile(lambda line: line.startswith("//"), path.read_text(encoding="utf-8").splitlines()[1:])
    text = "\n".join(line.lstrip("/").strip() for line in lines)
    return "`".join(piece if at % 2 else escaped(piece) for at, piece in enumerate(text.split("`")))


def pages(root, doxygen="doxygen"):
    """Pages by header: {"core/mesh.hpp": Markdown}. Raises RuntimeError with what doxygen warns of."""
    with tempfile.TemporaryDirectory(prefix="rankmesh-doxygen-") as folder:
        copied(root, pathlib.Path(folder))
        settings = SETTINGS + f"OUTPUT_DIRECTORY = {folder}\n"
        ran = subprocess.run([doxygen, "-"], input=settings, cwd=folder, capture_output=True, text=True)
        if ran.returncode or ran.stderr.strip():
            raise RuntimeError("doxygen: " + ran.stderr)
        compounds = [xml.parse(path).getroot()[0] for path in sorted(pathlib.Path(folder, "xml").glob("*_8h*.xml"))]
        classes = {}
        for pattern in ("class*.xml", "struct*.xml", "namespace*.xml"):
            for path in pathlib.Path(folder, "xml").glob(pattern):
                compound = xml.parse(path).getroot()[0]
                classes[compound.get("id")] = compound
    headers = {}
    for compound in compounds:
        header = compound.find("location").get("file").removeprefix("include/rankmesh/")
        headers[header] = [f"# {header}", f"`#include <rankmesh/{header}>`", about(root / "include/rankmesh" / header)]
    free = {}
    for compound in classes.values():
        if compound.get("kind") == "namespace":
            for _, members in members_of(compound):
                header = members[0].find("location").get("file").removeprefix("include/rankmesh/")
                free.setdefault(header, []).append((compound.findtext("compoundname"), members))
    for compound in compounds:  # what is in no namespace: the C header
        header = compound.find("location").get("file").removeprefix("include/rankmesh/")
        if header.endswith(".h"):
            free[header] = [("", members) for _, members in members_of(compound)]
    kinds = [c for c in classes.values() if c.get("kind") in ("class", "struct") and c.get("prot", "public") == "public"]
    for compound in sorted(kinds, key=lambda c: int(c.find("location").get("line"))):
        header = compound.find("location").get("file").removeprefix("include/rankmesh/")
        name = compound.findtext("compoundname").removeprefix("rankmesh::")
        if header in headers and "<" not in name and "@" not in name:
            bases = [base.text.removeprefix("rankmesh::") for base in compound.findall("basecompoundref")]
            under = f"Derives from `{'`, `'.join(bases)}`." if bases else ""
            headers[header] += [f"## `{name}`", under, described(compound), *section(members_of(compound), 3)]
    for header, rows in free.items():
        if header in headers:
            headers[header] += ["## Functions and types", *section([(m[0].findtext("name"), m) for _, m in rows], 3)]
    return {header: "\n\n".join(part for part in parts if part) + "\n" for header, parts in headers.items() if len(parts) > 3}
