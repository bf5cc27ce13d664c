// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

namespace rankmesh::bench {

/// Runs `program` as that many processes with a store in a folder of their own; 0 if all ended well.
inline int run_processes(char* const* arguments, int size) {
    auto folder = (std::filesystem::temp_directory_path() / "rankmesh-bench-XXXXXX").string();
    if (!mkdtemp(folder.data())) return 1;
    setenv("RANKMESH_STORE", folder.c_str(), 1);
    setenv("RANKMESH_JOB", "bench", 1);
    setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
    for (int rank = 0; rank < size; ++rank)
        if (fork() == 0) {
            setenv("RANK", std::to_string(rank).c_str(), 1);
            execv("/proc/self/exe", arguments);
            _exit(127);
        }
    auto worst = 0;
    for (int status = 0; wait(&status) > 0;) worst = std::max(worst, status);
    auto error = std::error_code{};
    std::filesystem::remove_all(folder, error);
    return worst == 0 ? 0 : 1;
}

/// A group as Gloo alone makes it: connected to every other member by way of a store.
inline std::shared_ptr<::gloo::Context> bare_group(std::shared_ptr<::gloo::transport::Device> device,
                                                   const std::string& name, int group_rank, int size) {
    auto store = ::gloo::rendezvous::FileStore(std::getenv("RANKMESH_STORE"));
    auto own = ::gloo::rendezvous::PrefixStore(name, store);
    auto context = std::make_shared<::gloo::rendezvous::Context>(group_rank, size);
    context->connectFullMesh(own, device);
    return context;
}

}  // namespace rankmesh::bench
