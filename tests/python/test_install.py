"""install(): our modules under the names of the originals, which are installed or not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import rankmesh

NAMES = {
    "areal": {"realhf.base.topology": "topology"},
    "deepspeed": {
        "deepspeed.runtime.pipe.topology": "topology",
        "deepspeed.runtime.sequence_parallel.parallel_state_sp": "parallel_state_sp",
        "deepspeed.utils.groups": "groups",
    },
    "llamafactory": {"llamafactory.v1.accelerator.interface": ""},
    "megatron": {
        "megatron.core.parallel_state": "parallel_state",
        "megatron.core.mpu": "parallel_state",
        "megatron.core.hyper_comm_grid": "hyper_comm_grid",
    },
    "megatron2022": {"vllm.model_executor.parallel_utils.parallel_state": "parallel_state"},
    "olmo": {"olmo_core.distributed.parallel": ""},
    "picotron": {"picotron.process_group_manager": "process_group_manager"},
    "torchtitan": {"torchtitan.distributed.parallel_dims": ""},
}


def python(program: str, folder: Path) -> str:
    """What a program prints in an interpreter of its own, where the modules of the folder are found."""
    here = Path(rankmesh.__file__).parent.parent
    code = f"import sys\nsys.path[:0] = {[str(folder), str(here)]!r}\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("framework", NAMES)
def test_without_the_original_every_import_finds_ours(framework: str, tmp_path: Path) -> None:
    program = f"import importlib, rankmesh.{framework} as ours\nours.install()\n"
    for name, module in NAMES[framework].items():
        package, _, leaf = name.rpartition(".")
        own = f"rankmesh.{framework}.{module}".rstrip(".")
        program += f"import {name}\nfrom {package} import {leaf} as second\nimport {name} as third\n"
        program += f"from {name} import __doc__ as text\n"
        program += f"here = importlib.import_module({own!r})\n"
        program += f"assert {name} is second is third is here is sys.modules[{name!r}]\nassert text == here.__doc__\n"
        program += f"assert here.__name__ == here.__spec__.name == {own!r}\n"
    program += (
        "ours.install()\nassert len([f for f in sys.meta_path if type(f).__module__ == 'rankmesh._install']) == 2\n"
    )
    python(program, tmp_path)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A package as Megatron-core's, whose own modules import its parallel_state in every way."""
    core = tmp_path / "megatron" / "core"
    core.mkdir(parents=True)
    (core / "__init__.py").write_text(
        "from megatron.core import parallel_state\n"
        "from .parallel_state import get_tensor_model_parallel_rank as rank\n"
        "import megatron.core.hyper_comm_grid\n"
    )
    for name in ("parallel_state", "hyper_comm_grid", "process_groups_config"):
        (core / f"{name}.py").write_text("def get_tensor_model_parallel_rank(): return 'the original'\n")
    (core / "timers.py").write_text("from . import parallel_state as mpu\n")
    return tmp_path


def test_of_an_installed_original_only_these_modules_are_replaced(original: Path) -> None:
    program = """
        import rankmesh.megatron
        rankmesh.megatron.install()
        assert "megatron" not in sys.modules
        import megatron.core.timers
        from megatron.core.hyper_comm_grid import HyperCommGrid
        from megatron.core.process_groups_config import get_tensor_model_parallel_rank
        from rankmesh.megatron import parallel_state
        assert get_tensor_model_parallel_rank() == "the original"
        assert megatron.core.timers.mpu is megatron.core.parallel_state is parallel_state
        assert megatron.core.rank is parallel_state.get_tensor_model_parallel_rank
        assert HyperCommGrid is rankmesh.megatron.HyperCommGrid
        print(megatron.core.__file__, megatron.core.timers.__file__)
        """
    core = original / "megatron" / "core"
    assert python(program, original).split() == [str(core / "__init__.py"), str(core / "timers.py")]


def test_a_package_finds_the_originals_own_modules(tmp_path: Path) -> None:
    package = tmp_path / "olmo_core" / "distributed" / "parallel"
    package.mkdir(parents=True)
    for folder in (package, *package.parents[:2]):
        (folder / "__init__.py").touch()
    (package / "pipeline_parallel.py").write_text("from . import get_pp_mesh\nclass PipelineSchedule: ...\n")
    program = """
        import rankmesh.olmo
        rankmesh.olmo.install()
        from olmo_core.distributed.parallel import PipelineSchedule, get_pp_mesh, pipeline_parallel
        assert PipelineSchedule is pipeline_parallel.PipelineSchedule is rankmesh.olmo.PipelineSchedule
        assert get_pp_mesh is pipeline_parallel.get_pp_mesh is rankmesh.olmo.get_pp_mesh
        print(pipeline_parallel.__name__, pipeline_parallel.__file__)
        """
    file = package / "pipeline_parallel.py"
    assert python(program, tmp_path).split() == ["olmo_core.distributed.parallel.pipeline_parallel", str(file)]


def test_an_original_that_was_imported_before_is_an_error_and_stays(original: Path) -> None:
    program = """
        import rankmesh, rankmesh.megatron
        from megatron.core.parallel_state import get_tensor_model_parallel_rank
        for again in range(2):
            try:
                rankmesh.megatron.install()
            except rankmesh.UsageError as error:
                print(error)
        import megatron.core.process_groups_config as config
        assert config.get_tensor_model_parallel_rank() == get_tensor_model_parallel_rank() == "the original"
        assert not [each for each in sys.meta_path if type(each).__module__ == "rankmesh._install"]
        """
    file = original / "megatron" / "core" / "parallel_state.py"
    assert (
        python(program, original).splitlines()
        == [
            f"megatron.core.parallel_state was imported before, from {file}, and what was taken from it would stay; "
            "call rankmesh.megatron.install() before the first import of it"
        ]
        * 2
    )


def test_install_says_what_it_replaces() -> None:
    import rankmesh.deepspeed

    assert rankmesh.deepspeed.install.__module__ == "rankmesh.deepspeed"
    assert "parallel_state_sp, deepspeed.utils.groups find" in (rankmesh.deepspeed.install.__doc__ or "")
