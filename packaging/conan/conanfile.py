# SPDX-License-Identifier: Apache-2.0
"""The C++ and C libraries for Conan 2: `conan create packaging/conan`.

It needs no other recipe: MPI and Gloo are those of the machine, as a cluster has them. Conan 2.34 with GCC 12 on
Debian 12 exports it, configures it and compiles half of it, static. Not tried: what comes after, and the options.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Rankmesh(ConanFile):
    name = "rankmesh"
    description = "Process topologies of large parallel jobs"
    license = "Apache-2.0"
    topics = ("parallel", "mpi", "distributed-training")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "mpi": [True, False], "gloo": [True, False]}
    default_options = {"shared": False, "fPIC": True, "mpi": False, "gloo": False}
    implements = ["auto_shared_fpic"]

    def set_version(self) -> None:
        text = load(self, Path(self.recipe_folder, "../../CMakeLists.txt"))
        self.version = re.search(r"project\(rankmesh VERSION ([0-9.]+)", text).group(1)

    def export_sources(self) -> None:
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, Path(self.recipe_folder, "../.."), self.export_sources_folder)

    def layout(self) -> None:
        cmake_layout(self)

    def validate(self) -> None:
        check_min_cppstd(self, 20)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        for name in ("CLI", "TESTS", "NCCL", "XML", "HWLOC"):
            toolchain.cache_variables[f"RANKMESH_{name}"] = "OFF"
        for name in ("mpi", "gloo"):
            toolchain.cache_variables[f"RANKMESH_{name.upper()}"] = "ON" if self.options.get_safe(name) else "OFF"
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self) -> None:
        # The package's own rankmeshConfig.cmake knows its components.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/rankmesh"]
