// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/types.hpp"

#include <array>
#include <map>
#include <mutex>

#include "engine/arithmetic.hpp"

namespace rankmesh::detail {
namespace {

template <Reduction R, DType D>
void reduce_halves(void* in, void* inout, int* count, MPI_Datatype*) {
    reduce_into<R>(D, in, inout, static_cast<std::size_t>(*count));
}

/// An MPI_Op of rankmesh for f16 and one for bf16, created at their first use; all of them commute.
struct OwnOp {
    Reduction reduction;
    std::array<MPI_User_function*, 2> functions;
    std::array<MPI_Op, 2> ops = {MPI_OP_NULL, MPI_OP_NULL};
};

template <Reduction R>
OwnOp own() {
    return {R, {reduce_halves<R, DType::f16>, reduce_halves<R, DType::bf16>}};
}

std::array<OwnOp, 4>& own_ops() {
    static auto ops = std::array{own<Reduction::sum>(), own<Reduction::prod>(), own<Reduction::min>(),
                                 own<Reduction::max>()};
    return ops;
}

/// The datatypes and operations of functions. Channels of a multithreaded world use them at the same time.
struct Functions {
    std::mutex mutex;
    int key = MPI_KEYVAL_INVALID;                            // of a datatype: its Function
    std::array<MPI_Op, 2> ops = {MPI_OP_NULL, MPI_OP_NULL};  // by whether they commute
    std::map<std::pair<const Function*, std::size_t>, MPI_Datatype> types;

    static Functions& of_process() {
        static auto& functions = *new Functions;  // which MPI may outlive
        return functions;
    }
};

void apply_function_of(void* in, void* inout, int* count, MPI_Datatype* type) {
    void* function = nullptr;
    auto found = 0;
    MPI_Type_get_attr(*type, Functions::of_process().key, &function, &found);
    static_cast<const Function*>(function)->apply(in, inout, static_cast<std::size_t>(*count));
}

}  // namespace

MPI_Op own_op(Reduction reduction, DType dtype) {
    // Channels of a multithreaded world may call this at the same time.
    static std::mutex mutex;
    const auto lock = std::lock_guard(mutex);
    const auto which = reduction == Reduction::mean ? Reduction::sum : reduction;
    auto& own = *std::ranges::find(own_ops(), which, &OwnOp::reduction);
    const auto type = dtype == DType::f16 ? std::size_t{0} : std::size_t{1};
    if (own.ops[type] == MPI_OP_NULL) MPI_Op_create(own.functions[type], 1, &own.ops[type]);
    return own.ops[type];
}

MPI_Op function_op(bool commutes) {
    auto& functions = Functions::of_process();
    const auto lock = std::lock_guard(functions.mutex);
    auto& op = functions.ops[commutes ? 1 : 0];
    if (op == MPI_OP_NULL) MPI_Op_create(apply_function_of, commutes ? 1 : 0, &op);
    return op;
}

MPI_Datatype function_type(const Function& function, std::size_t bytes) {
    auto& functions = Functions::of_process();
    const auto lock = std::lock_guard(functions.mutex);
    auto& type = functions.types.try_emplace({&function, bytes}, MPI_DATATYPE_NULL).first->second;
    if (type != MPI_DATATYPE_NULL) return type;
    if (functions.key == MPI_KEYVAL_INVALID)
        MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &functions.key, nullptr);
    MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, functions.key, const_cast<Function*>(&function));
    return type;
}

void free_ops() {
    auto& functions = Functions::of_process();
    for (auto& [function, type] : functions.types) MPI_Type_free(&type);
    functions.types.clear();
    for (auto& op : functions.ops)
        if (op != MPI_OP_NULL) MPI_Op_free(&op);
    if (functions.key != MPI_KEYVAL_INVALID) MPI_Type_free_keyval(&functions.key);
    for (auto& own : own_ops())
        for (auto& op : own.ops)
            if (op != MPI_OP_NULL) MPI_Op_free(&op);
}

}  // namespace rankmesh::detail
