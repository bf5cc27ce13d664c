// SPDX-License-Identifier: Apache-2.0
// One operation as it was asked for: its text, which all ranks must agree on, and what goes where.
#pragma once

#include "fake/cuda/memory.hpp"
#include "fake/nccl/communicator.hpp"

namespace fake_nccl {

enum class Function {
    all_reduce,
    reduce,
    broadcast,
    reduce_scatter,
    all_gather,
    all_to_all,
    gather,
    scatter,
    send,
    receive
};

struct Operation {
    Function function;
    const void* in;
    void* out;
    std::size_t count;
    ncclDataType_t type;
    ncclRedOp_t reduction;  // ncclSum where none
    int root;               // or peer; -1: none
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<fake_cuda::Stream> stream;
    fake_cuda::Location from = {}, to = {};  // of the buffers that it uses
    std::uint64_t number = 0;                // of its kind in the communicator
    std::string order = {};                  // what its device was given before
    std::optional<Scaled> scaled = {};

    bool is_message() const { return function == Function::send || function == Function::receive; }
    bool reduces() const {
        return function == Function::all_reduce || function == Function::reduce ||
               function == Function::reduce_scatter;
    }
    bool at_root() const { return root == communicator->rank; }
    std::size_t bytes() const;  // of one piece
    std::size_t bytes_in() const;
    std::size_t bytes_out() const;
    std::string content() const;  // how much of what
    std::string words() const;    // all that ranks must agree on
};

const char* name_of(Function function);
std::size_t size_of(ncclDataType_t type);

/// Refuses arguments as the real library does by Failure, and what it trusts its caller with by a violation.
void check(Operation& operation);

/// Where in `from` the piece for a peer begins, and how long it is.
struct Piece {
    std::size_t begin;
    std::size_t size;
};
Piece piece_for(const Operation& operation, int peer);

}  // namespace fake_nccl
