#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flags and settings of the originals' newest versions, and what rankmesh does with each.

    python scripts/original_flags.py vllm PLACE           compares an original with src/frameworks/vllm/flags.csv
    python scripts/original_flags.py --record vllm PLACE  writes its flags there; new ones are `new`

PLACE is a wheel, as `pip download --no-deps` brings it, or a folder that has the package. Megatron's flags are not in
its wheel, picotron has no wheel, and LLaMA-Factory's is older than the rows: give a checkout. The script reads the
calls of add_argument, and the fields of the classes from which an original makes flags. No code of the original runs.

`flags.csv` has the class of each flag, which only a person can say:

    places  a row of rankmesh reads it, since it places ranks; or convert refuses it
    lost    it makes groups or stages that no other framework has: convert keeps it, and names it as lost
    note    it changes what ranks send, or when, in the same groups: convert notes that it is not converted
    none    it does neither: convert says nothing

Whoever records a new version replaces each `new`. A test holds the rows against the files."""

import ast
import csv
import json
import re
import sys
import zipfile
from pathlib import Path

FOLDERS = Path(__file__).resolve().parents[1] / "src/frameworks"

MEGATRON, CONFIG, CORE = "megatron/training/", "megatron/training/config/", "megatron/core/"
SGLANG = [
    "device",
    "disagg",
    "exec_",
    "lora",
    "memory",
    "mm",
    "model",
    "observability",
    "parallel",
    "schedule",
    "serving",
    "spec",
]
OLMO = {"Data": "dp", "Tensor": "tp", "Context": "cp", "Pipeline": "pp", "Expert": "ep"}
TRANSFORMER = "olmo_core/train/train_module/transformer/config.py"

# Of each framework: `FILE` for its calls of add_argument or the keys of YAML or JSON, `FILE:CLASS` for the fields of a
# class, and `=TABLE.` for the place in which rankmesh reads them.
SOURCES = {
    "vllm": [
        "-O",  # which vLLM takes apart by hand
        "vllm/engine/arg_utils.py",
        "vllm/entrypoints/cli/serve.py",
        "vllm/entrypoints/common/cli_args.py",
        "vllm/entrypoints/common/cli_args.py:FrontendArgs",
    ],
    "sglang": ["sglang/srt/server_args.py", *(f"sglang/srt/arg_groups/fields/{name}.py:*" for name in SGLANG)],
    "megatron": [
        f"{MEGATRON}arguments.py",
        f"{CORE}transformer/transformer_config.py:TransformerConfig",
        f"{CORE}model_parallel_config.py:ModelParallelConfig",
        f"{CONFIG}training_config.py:TrainingConfig",
        f"{CONFIG}training_config.py:ValidationConfig",
        f"{CONFIG}training_config.py:SchedulerConfig",
        f"{CONFIG}training_config.py:LoggerConfig",
        f"{CONFIG}training_config.py:CheckpointConfig",
        f"{CONFIG}common_config.py:RNGConfig",
        f"{CONFIG}common_config.py:ProfilingConfig",
        f"{CONFIG}common_config.py:DistributedInitConfig",
        f"{CONFIG}resilience_config.py:RerunStateMachineConfig",
        f"{CONFIG}resilience_config.py:StragglerDetectionConfig",
    ],
    "accelerate": ["accelerate/commands/launch.py"],
    "transformers": ["transformers/distributed/configuration_utils.py:DistributedConfig"],
    "torchtitan": ["torchtitan/config/configs.py:ParallelismConfig"],
    "deepspeed": [
        "deepspeed/runtime/zero/config.py:DeepSpeedZeroConfig=zero_optimization.",
        "deepspeed/runtime/tensor_parallel/config.py:TPTrainingConfig=tensor_parallel.",
        "deepspeed/module_inject/auto_ep_presets/base.py:AutoEPConfig=expert_parallel.",
    ],
    "verl": [
        "verl/trainer/config/engine/fsdp.yaml=actor_rollout_ref.actor.fsdp_config.",
        "verl/trainer/config/actor/actor.yaml=actor_rollout_ref.actor.",
        "verl/trainer/config/actor/dp_actor.yaml=actor_rollout_ref.actor.",
        "verl/trainer/config/rollout/rollout.yaml=actor_rollout_ref.rollout.",
        "verl/trainer/config/engine/megatron.yaml=actor_rollout_ref.actor.megatron.",
        "verl/trainer/config/engine/torchtitan.yaml=actor_rollout_ref.actor.torchtitan.",
        "verl/trainer/config/engine/veomni.yaml=actor_rollout_ref.actor.veomni.",
        "verl/trainer/config/ref/dp_ref.yaml=actor_rollout_ref.ref.",
        "verl/trainer/config/critic/dp_critic.yaml=critic.",
    ],
    "areal": [
        "areal/api/cli_args.py:PPOConfig",
        "areal/api/cli_args.py:TrainEngineConfig=actor.",
        "areal/api/cli_args.py:InferenceEngineConfig=rollout.",
        "areal/api/cli_args.py:ClusterSpecConfig=cluster.",
    ],
    "olmo": [
        *(f"{TRANSFORMER}:Transformer{name}ParallelConfig={axis}_config." for name, axis in OLMO.items()),
        *(
            f"olmo_core/distributed/parallel/{name.lower()}_parallel.py:{name}ParallelConfig={axis}_config."
            for name, axis in OLMO.items()
        ),
    ],
    "nanotron": ["nanotron/config/parallelism_config.py:ParallelismArgs"],
    "llamafactory": ["src/llamafactory/v1/config/training_args.py:TrainingArguments"],
    "picotron": ["template/base_config.json"],
    "archon": ["areal/experimental/models/archon/parallel_dims.py:ArchonParallelDims"],
    "veomni": ["veomni/arguments/arguments_types.py:AcceleratorConfig"],
}


def _strings(node):
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _keyword(call, name):
    return next((each.value for each in call.keywords if each.arg == name), None)


def _calls(tree):
    """The names in calls of add_argument."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            yield from (each.value for each in call.args if isinstance(each, ast.Constant) and each.value[0] == "-")


def _fields(tree, wanted):
    """The fields of a class, or of all, and their other names, as the original makes flags of them."""
    for kind in tree.body:
        if not isinstance(kind, ast.ClassDef) or wanted not in ("*", kind.name):
            continue
        bases = [base.id for base in kind.bases if isinstance(base, ast.Name)]
        for base in bases if wanted != "*" else ():
            yield from _fields(tree, base)
        for field in kind.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            name, kind = field.target.id, ast.unparse(field.annotation)
            if name.startswith("_") or "Derived(" in kind or "no_cli=True" in kind:
                continue
            calls = [call for call in ast.walk(field) if isinstance(call, ast.Call)]
            names = [each for call in calls if (said := _keyword(call, "cli_name")) for each in _strings(said)]
            names = names or [f"--{name}"]
            for call in calls:
                for key in ("aliases", "alias"):
                    if (aliases := _keyword(call, key)) is not None:
                        names += _strings(aliases)
                if (meta := _keyword(call, "metadata")) is not None and isinstance(meta, ast.Dict):
                    for key, value in zip(meta.keys, meta.values, strict=True):
                        if ast.unparse(key) == "'argparse_meta'" and isinstance(value, ast.Dict):
                            said = dict(zip(map(ast.unparse, value.keys), value.values, strict=True))
                            names = _strings(said["'arg_names'"]) if "'arg_names'" in said else names
            yield from names


_INNER = {"_target_", "defaults", "profiler", "optim", "qat", "multi_turn"}


def _keys(text):
    """The keys of a YAML file, with dots between."""
    path = []
    for line in text.splitlines():
        name, colon, _ = line.partition(":")
        depth = (len(name) - len(name.lstrip())) // 2
        if colon and (name := name.strip()).replace("_", "").isalnum():
            path[depth:] = [name]
            yield ".".join(path)


def _excluded(tree):
    """Returns the fields that Megatron excludes from its flags: `exclude=[...]` and `exclude = [...]`."""
    for each in ast.walk(tree):
        is_argument = isinstance(each, ast.keyword) and each.arg == "exclude" and isinstance(each.value, ast.List)
        if is_argument or (isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "exclude"):
            yield from _strings(each.value)


def flags_of(framework, place):
    """All names, without dashes in front and with underscores."""

    def text(file):
        if not Path(place).is_dir():
            return zipfile.ZipFile(place).read(file).decode()
        return (Path(place) / file).read_text()

    names, excluded, own = set(), set(), set()
    for source in SOURCES[framework]:
        if source.startswith("-"):
            own.add(source)
            continue
        source, _, table = source.partition("=")
        file, _, wanted = source.partition(":")
        if file.endswith(".yaml"):
            names |= {f"--{table}{name}" for name in _keys(text(file)) if not _INNER & set(name.split("."))}
            continue
        if file.endswith(".json"):
            names |= {f"--{name}.{key}" for name, table in json.loads(text(file)).items() for key in table}
            continue
        tree = ast.parse(text(file))
        if not wanted:
            own |= {"-h", "--help", *_calls(tree)}  # argparse adds help
            excluded |= {f"--{name}" for name in _excluded(tree)}
        else:
            names |= {f"--{table}{name.lstrip('-')}" for name in _fields(tree, wanted)}
    return {name.lstrip("-").replace("-", "_") for name in names - excluded | own} - {""}


def recorded(framework):
    """The class of each flag."""
    file = FOLDERS / framework / "flags.csv"
    if not file.exists():
        return {}
    with file.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["class"] != "version"]
        return {flag: row["class"] for row in rows for flag in row["flags"].split()}


def version_of(framework, place):
    """That of the rows, or of the wheel where the rows are of an older original."""
    found = re.search(r'\.version = "(.*)"', (FOLDERS / framework / "rows.cpp").read_text())
    return found[1] if found else (re.search(r"-([0-9.]+)-", Path(place).name) or ["", ""])[1]


def write(framework, version, classes):
    """As many flags of a class in a line as fit."""
    lines = ["class,flags", f"version,{version}"]
    for kind, flag in sorted((kind, flag) for flag, kind in classes.items()):
        if lines[-1].startswith(f"{kind},") and len(lines[-1]) + len(flag) < 130:
            lines[-1] += f" {flag}"
        else:
            lines.append(f"{kind},{flag}")
    (FOLDERS / framework / "flags.csv").write_text("\n".join(lines) + "\n")


def main(arguments):
    record = arguments[0] == "--record"
    framework, place = arguments[record:]
    known, found = recorded(framework), flags_of(framework, place)
    for what, flags in (("new", found - known.keys()), ("gone", known.keys() - found)):
        print(f"{what}: {' '.join(sorted(flags)) or 'none'}")
    for kind in ("places", "lost", "note"):
        print(f"{kind}: {' '.join(sorted(flag for flag in found if known.get(flag) == kind))}")
    if record:
        write(framework, version_of(framework, place), {flag: known.get(flag, "new") for flag in found})
    return 0 if record else found != known.keys()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
