// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl_array.hpp>

namespace rankmesh::nccl {
namespace {

[[noreturn]] void throw_not_built() {
    throw NotBuilt(
        "this program's rankmesh has no NCCL; link rankmesh::rankmesh, not rankmesh::threads, of a rankmesh "
        "that was configured with -DRANKMESH_NCCL=ON where nccl.h of 2.28.9 or later and cuda_runtime.h are "
        "installed, which needs no GPU");
}

}  // namespace

bool is_built() { return false; }

Software software() {
    try {
        throw_not_built();
    } catch (const NotBuilt& error) {
        auto found = Software();
        found.problem = error.what();
        return found;
    }
}

World::World(const rankmesh::World&, const Options&) : rankmesh::World(nullptr) { throw_not_built(); }

int World::device() const { throw_not_built(); }

}  // namespace rankmesh::nccl

namespace rankmesh::detail {

std::string nccl_library() { return {}; }

std::shared_ptr<void> allocate_on_device(int, std::size_t) { nccl::throw_not_built(); }
void copy_to_device(int, void*, const void*, std::size_t) { nccl::throw_not_built(); }
void copy_to_host(int, void*, const void*, std::size_t) { nccl::throw_not_built(); }

}  // namespace rankmesh::detail
