# SPDX-License-Identifier: Apache-2.0
"""A small Llama or Qwen MoE of transformers, loaded by from_pretrained with a DistributedConfig, and trained."""

import os

from .framework import Framework, Layout

FRAMEWORK = Framework(
    package="transformers",
    install="rankmesh.torch",  # it makes all its groups by DeviceMeshes
    needs={"accelerate": "accelerate", "huggingface_hub": "huggingface_hub", "safetensors": "safetensors", "tokenizers": "tokenizers<0.24", "regex": "regex"},
    paths=("src", "."),
    environment={"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    torch=False,
    imports=("transformers.models.llama.modeling_llama", "transformers.models.qwen3_moe.modeling_qwen3_moe", "torch._dynamo"),
    layouts={
        "tp4": Layout(4, {"tp_size": 4}, also_install=False),
        "fsdp2 tp2": Layout(4, {"fsdp_size": 2, "tp_size": 2}, also_install=False),
        "dp_replicate2 fsdp2 tp2": Layout(8, {"dp_replicate_size": 2, "fsdp_size": 2, "tp_size": 2}, also_install=False),
        "fsdp4 ep4": Layout(4, {"fsdp_size": 4, "ep_size": 4}, also_install=False),
        "fsdp4 tp2 ep4": Layout(8, {"fsdp_size": 4, "tp_size": 2, "ep_size": 4}, also_install=False),
    },
)
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "vocab_size": 128,
    "tie_word_embeddings": False,
}


def train(settings, steps, note):
    import torch
    import transformers
    from transformers.distributed import DistributedConfig

    folder = f"model{os.environ['RANK']}"
    save(folder, experts="ep_size" in settings)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, distributed_config=DistributedConfig(**settings))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    batch = int(os.environ["RANK"]) // settings.get("tp_size", 1)
    random = torch.Generator().manual_seed(1 + batch)
    for _ in range(steps):
        tokens = torch.randint(SIZES["vocab_size"], (2, 16), generator=random)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        note(loss=loss.detach(), grad_norm=torch.nn.utils.get_total_norm([whole(each.grad) for each in model.parameters()]))
        optimizer.step()
        optimizer.zero_grad()


def whole(tensor):
    """All of a tensor of which this rank has a part; parts are on several meshes."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def save(folder, experts=False):
    """A model with random weights, equal on all ranks."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    if experts:
        config = Qwen3MoeConfig(**SIZES, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
        Qwen3MoeForCausalLM(config).save_pretrained(folder)
    else:
        LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(folder)
