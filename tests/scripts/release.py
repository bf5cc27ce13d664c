#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/release in a small checkout: what it refuses, and that its checksums and its SBOM are of the files that it made."""
import hashlib, json, shutil, subprocess, sys, tarfile, tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/release"


def run(folder, *words):
    done = subprocess.run([sys.executable, "scripts/release", *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def git(folder, *words):
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary)
    (folder / "scripts").mkdir()
    shutil.copy(SCRIPT, folder / "scripts/release")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "CMakeLists.txt").write_text("project(rankmesh VERSION 1.2.3)\n")
    changes = folder / "CHANGELOG.md"
    git(folder, "init", "-q")

    def refused(text, *words):
        code, said = run(folder, *words)
        assert (code, text in said) == (1, True), said
        assert not (folder / "build/release-1.2.3").exists()

    changes.write_text("## Unreleased\n\n- New.\n")
    refused("CHANGELOG.md has no '## 1.2.3 - DATE'; move the lines of '## Unreleased' under it")
    changes.write_text("## Unreleased\n\n- New.\n\n## 1.2.3 - 2026-01-02\n\n- Old.\n")
    refused("CHANGELOG.md has lines under '## Unreleased' that 1.2.3 would not name")
    changes.write_text("## Unreleased\n\n## 1.2.3 - 2026-01-02\n\n- Old.\n")
    refused("the checkout has changes that no commit has; commit or remove them:\n?? .gitignore")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    refused("rpm: a release has sources, wheels and debian", "rpm")

    for kind, name in (("wheels/dist", "rankmesh-1.2.3-cp312-abi3-linux_x86_64.whl"), ("debian/packages", "rankmesh_1.2.3_amd64.deb")):
        (folder / "build" / kind).mkdir(parents=True)
        (folder / "build" / kind / name).write_bytes(name.encode())
    code, said = run(folder)
    assert code == 0 and said.endswith("to tag it: git tag -a v1.2.3 -m 'rankmesh 1.2.3'\n"), said
    made = folder / "build/release-1.2.3"
    lines = [line.split("  ") for line in (made / "SHA256SUMS").read_text().splitlines()]
    assert sorted([name for _, name in lines] + ["SHA256SUMS"]) == sorted(file.name for file in made.iterdir())
    for digest, name in lines:
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest, name
    with tarfile.open(made / "rankmesh-1.2.3.tar.gz") as sources:
        assert "rankmesh-1.2.3/CMakeLists.txt" in sources.getnames()
    document = json.loads((made / "rankmesh-1.2.3.spdx.json").read_text())
    packages = {each["SPDXID"]: each for each in document["packages"]}
    sums = {each["name"]: each["checksums"][0]["checksumValue"] for each in packages.values() if "checksums" in each}
    assert sums == {name: digest for digest, name in lines if not name.endswith(".spdx.json")}
    for each in document["relationships"]:
        assert {each["spdxElementId"], each["relatedSpdxElement"]} <= {*packages, "SPDXRef-DOCUMENT"}
    assert {each["relatedSpdxElement"] for each in document["relationships"]} == set(packages)

    (folder / "build/wheels/dist/rankmesh-1.0.0-py3-none-any.whl").touch()
    code, said = run(folder)
    assert code == 1 and "rankmesh-1.0.0-py3-none-any.whl is not of 1.2.3; remove build/wheels/dist" in said, said
    git(folder, "tag", "v1.2.3")
    code, said = run(folder, "sources")
    assert code == 1 and "v1.2.3 is tagged already; raise the version in CMakeLists.txt" in said, said
