// SPDX-License-Identifier: Apache-2.0
// Known faults of versions of libraries, and the versions with which rankmesh was tested.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankmesh::of_versions {

/// Versions from `first` to `last`, with all that begin with `last`: 2.29 includes 2.29.7. Empty: no bound.
struct Range {
    std::string_view first, last;

    /// Returns true if a version, or one that begins with it, is in the range.
    bool has(std::string_view version) const;
};

/// A library, and the versions that tests ran with. docs/stability.md shows this table.
struct Library {
    std::string_view key;  ///< as `check --versions` takes it
    std::string_view name;
    Range tested;
};

inline constexpr Library libraries[] = {
    {"gcc", "GCC", {"12", "12"}},
    {"clang", "Clang", {"16", "16"}},
    {"python", "Python", {"3.11", "3.13"}},
    {"torch", "PyTorch", {"2.11", "2.14"}},
    {"open-mpi", "Open MPI", {"4.1", "4.1"}},
    {"mpich", "MPICH", {"4.0", "4.0"}},
    {"gloo", "Gloo", {"0.5", "0.5"}},
    {"nccl", "NCCL", {"2.28", "2.32"}},
};

/// A fault that its library's issues or release notes, or tests of rankmesh, document.
struct Fault {
    std::string_view library;  ///< a key of `libraries`
    Range versions;
    std::string_view processor;  ///< empty: any
    std::string_view text;       ///< what else must be so; what happens; the way round
    std::string_view source;
    std::string_view symptom = {};  ///< what a line of a log has; empty: logs do not show the fault
    bool is_clear = false;          ///< only this fault has the symptom
};

constexpr std::string_view hang = "Watchdog caught collective operation timeout";

inline constexpr Fault faults[] = {
    {"nccl", Range("", "2.29.2"), "aarch64",
     "a job hangs, once the proxy has lost its slots; use 2.29.3 or later",
     "github.com/NVIDIA/nccl/releases/tag/v2.29.3-1", hang},
    {"nccl", Range("2.29.2", "2.29.2"), "", "under PyTorch, a job hangs; use 2.29.3 or later",
     "github.com/pytorch/pytorch/pull/174338", hang},
    {"nccl", Range("2.31.2", "2.31.2"), "",
     "if nodes have different numbers of ranks, ncclCommInitRank hangs; use as many ranks on each node",
     "github.com/NVIDIA/nccl/issues/2385"},
    {"nccl", Range("2.27.5", "2.30.4"), "",
     "on NVL72 with 44 ranks and more, ncclCommInitRank crashes; set `ulimit -s 8192` or NCCL_MNNVL_ENABLE=0",
     "github.com/NVIDIA/nccl/issues/2186"},
    {"nccl", Range("2.25.1", "2.25.1"), "",
     "ncclCommAbort hangs, so a job does not end after an error; use 2.26.2 or later",
     "github.com/pytorch/pytorch/issues/149153"},
    {"nccl", Range("2.20.5", "2.21.5"), "", "with CUDA graphs, a job hangs; use 2.22.3 or later",
     "github.com/NVIDIA/nccl/issues/1251", hang},
    {"nccl", Range("2.19.3", "2.20.5"), "",
     "ncclCommInitRank fails now and then, because it mixes up two messages; try 2.21 or later",
     "github.com/NVIDIA/nccl/issues/1176", "NCCL WARN Message truncated : received ", true},
    {"nccl", Range("2.18.1", "2.18.1"), "",
     "if a NIC and one GPU share a PCI switch, as in HGX H100, data can be corrupted; set NCCL_PROTO=^LL128",
     "docs.nvidia.com/deeplearning/nccl/release-notes/rel_2-18-1.html"},
    {"nccl", Range("2.17.1", "2.17.1"), "",
     "ncclCommAbort waits for the other ranks; call destroy_process_group on all ranks",
     "github.com/pytorch/pytorch/issues/119215"},
    {"torch", Range("2.13.0", "2.13.0"), "",
     "with NCCL, a rank that waits in destroy_process_group after an error writes no dump; read its log",
     "github.com/pytorch/pytorch/issues/196968"},
    {"open-mpi", Range("3.0", "4"), "",
     "in a container without ptrace, messages in shared memory fail; set "
     "OMPI_MCA_btl_vader_single_copy_mechanism=none",
     "github.com/open-mpi/ompi/issues/4948", "Read -1, expected ", true},
    {"open-mpi", Range("4.1.4", "4.1.4"), "",
     "if a process ends without MPI_Init, mpirun can hang; start it by `timeout -k 10 SECONDS mpirun`",
     "docs/fault-tests.md"},
    {"mpich", Range("4.2.0", "4.2.0"), "",
     "with thousands of pending messages, MPI_Isend does not complete; use 4.1.2",
     "github.com/pmodels/mpich/issues/7171"},
    {"mpich", Range("4.0", "4.0"), "",
     "MPI_Reduce in place above 2 KiB with a root other than 0 crashes; call the `reduce` of rankmesh",
     "docs/mpi.md"},
};

/// The versions of libraries, by key.
using Versions = std::vector<std::pair<std::string, std::string>>;

/// Reads `nccl=2.28.9,torch=2.13`. Throws UsageError if a library is not known, or a version is not one.
Versions parse_versions(std::string_view text);

/// Returns the faults of these versions on a processor; on any if it is empty.
std::vector<const Fault*> faults_of(const Versions& versions, std::string_view processor = {});

/// `NCCL up to 2.29.2 on aarch64: a job hangs, ...; use 2.29.3 or later (github.com/...)`.
std::string text_of(const Fault& fault);

/// `2.11 to 2.14`.
std::string text_of(const Range& range);

/// Returns a sentence about the versions that were not tested; "" if there are none.
std::string untested(const Versions& versions);

}  // namespace rankmesh::of_versions
