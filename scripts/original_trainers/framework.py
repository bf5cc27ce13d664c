# SPDX-License-Identifier: Apache-2.0
"""What a trainer's file says. It imports its framework only in `train`: the driver reads the file as well.

    FRAMEWORK = Framework(package="invented", install="rankmesh.invented", layouts={"dp2 tp2": Layout(4, {"tp": 2})})

    def train(settings, steps, note):
        ...                                    # one rank, with torchrun's variables, in a folder of its run
            note(loss=loss, grad_norm=norm)    # after each step: numbers, which are compared bit by bit
"""

from dataclasses import dataclass, field

from original_tests.processes import Original


@dataclass(frozen=True)
class Layout:
    ranks: int
    settings: dict = field(default_factory=dict)  # what `train` is given
    also_install: bool = True  # it makes DeviceMeshes, so that rankmesh.torch.install() alone replaces their groups


@dataclass(frozen=True)
class Framework(Original):
    layouts: dict = field(default_factory=dict)  # Layout by its name
    imports: tuple = ()  # modules besides `package` that all ranks import
