# SPDX-License-Identifier: Apache-2.0
# For Spack 1.0 or later, in a repository of your own: packages/rankmesh/package.py.
#
# No Spack has run this: it can be had neither from PyPI nor from Debian. What was tried: Python compiles it, its directives fit each
# other, and each setting that it makes is one of CMakeLists.txt. The names of the packages are those of Spack's own repository.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Rankmesh(CMakePackage):
    """Process topologies of large parallel jobs: meshes, groups, communicators, and the command rankmesh."""

    # The address of a release comes with the first one: homepage, url, and a version with its checksum.
    license("Apache-2.0")

    variant("shared", default=True, description="Build a shared library")
    variant("mpi", default=True, description="Build the MPI engine")
    variant("gloo", default=False, description="Build the Gloo engine")
    variant("command", default=True, description="Build the command rankmesh and rankmesh::convert")
    variant("hwloc", default=True, when="+command", description="Detect this machine, and read clusters in XML")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("gloo", when="+gloo")
    depends_on("cli11", type="build", when="+command")
    depends_on("fmt", when="+command")
    depends_on("nlohmann-json", type="build", when="+command")
    depends_on("tomlplusplus", type="build", when="+command")
    depends_on("yaml-cpp", when="+command")
    depends_on("hwloc", when="+hwloc")
    depends_on("pugixml", when="+hwloc")

    conflicts("%gcc@:11", msg="a compiler of C++20 is needed; GCC 12 and clang 16 were tried")
    conflicts("platform=windows", msg="Linux is needed")

    def cmake_args(self):
        args = [self.define(f"RANKMESH_{name}", False) for name in ("TESTS", "NCCL")]
        args.append(self.define_from_variant("BUILD_SHARED_LIBS", "shared"))
        for variant in ("mpi", "gloo", "hwloc"):
            args.append(self.define(f"RANKMESH_{variant.upper()}", self.spec.satisfies(f"+{variant}")))
        args.append(self.define("RANKMESH_XML", self.spec.satisfies("+hwloc")))
        args.append(self.define_from_variant("RANKMESH_CLI", "command"))
        return args
