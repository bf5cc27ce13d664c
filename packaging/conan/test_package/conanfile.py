# SPDX-License-Identifier: Apache-2.0
"""A program on the package that Conan made: the one that tests the installed library."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class RankmeshTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self) -> None:
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        cmake_layout(self)

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure(build_script_folder="../../../tests/consumers/threads_only")
        cmake.build()

    def test(self) -> None:
        if can_run(self):
            self.run(Path(self.build_folder, "consumer"), env="conanrun")
