"""The page docs/gallery.md: its Python is in the examples, and they print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch_ranks import example, free_port, preload, ranks  # noqa: E402

preload("torch.distributed.fsdp", "torch.distributed.tensor.parallel")
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/python"
LOSS = re.compile(r"^dp=(\d) tp=(\d), step (\d): loss ([0-9.]+)$", re.MULTILINE)


def blocks(document: str, kind: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [part.partition("\n")[2].rstrip() for part in text.split("```")[1::2] if part.startswith(kind + "\n")]


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def losses_alone(steps: int) -> list[float]:
    """The losses of the same training in one process."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1), torch.nn.Tanh())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for step in range(steps):
        inputs = torch.randn(32, 16, generator=torch.Generator().manual_seed(step))
        loss = (model(inputs) - inputs.mean(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_fsdp_tp_when_run_has_losses_of_one_process(tmp_path: Path) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    printed = ranks(4, example, tmp_path, EXAMPLES / "fsdp_tp.py", where, initialised=False)
    found = LOSS.findall("".join(printed))
    assert [(dp, tp, int(step)) for dp, tp, step, _ in found] == [("2", "2", step) for step in range(4)]
    assert [float(loss) for *_, loss in found] == pytest.approx(losses_alone(4), abs=1e-4)
    for document in ("docs/gallery.md", "docs/start-torch.md"):
        (shown,) = [block for block in blocks(document, "text") if "fsdp_tp.py" in block]
        assert [(*each[:3], pytest.approx(float(each[3]), abs=1e-4)) for each in LOSS.findall(shown)] == [
            (*each[:3], float(each[3])) for each in found
        ]


def test_hang_when_run_is_explained_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = os.environ.get("RANKMESH_COMMAND")
    if not command:
        pytest.skip("needs the command")
    monkeypatch.chdir(tmp_path)
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "hang.py")], capture_output=True, text=True, timeout=60, check=True
    )
    explained = subprocess.run([command, "explain", "records"], capture_output=True, text=True, timeout=60)
    (shown,) = [block for block in blocks("docs/gallery.md", "text") if "hang.py" in block]
    first, second = re.split(r"^\$ .*\n", shown, flags=re.MULTILINE)[1:]
    assert ran.stdout.strip() == first.strip()
    assert explained.stdout.startswith(second)


@pytest.mark.parametrize("document", ["docs/gallery.md", "docs/start-torch.md"])
def test_snippets_of_pages_are_lines_of_examples(document: str) -> None:
    sources = [lines_of(path.read_text(encoding="utf-8")) for path in EXAMPLES.glob("*.py")]
    for block in blocks(document, "python"):
        lines = lines_of(block)
        assert any(lines == source[at : at + len(lines)] for source in sources for at in range(len(source))), block


def test_script_of_the_gallery_ends_as_shown() -> None:
    (shown,) = blocks("docs/gallery.md", "sh")
    assert (ROOT / "examples/check_job.sh").read_text(encoding="utf-8").endswith(f"\n{shown}\n")


def test_examples_of_the_gallery_have_at_most_100_lines() -> None:
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    for path in re.findall(r"\]\(\.\./(examples/[^)]*)\)", page):
        assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= 100, path
