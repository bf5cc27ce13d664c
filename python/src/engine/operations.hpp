// SPDX-License-Identifier: Apache-2.0
// Operations of a communicator: their arrays, and their methods in Python with those that start them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/started.hpp"
#include "values/signature.hpp"

namespace rankmesh::python {

using Op = detail::Operation;

/// Returns the arrays of an operation; without an output the input is also the output.
Prepared arrays_of(Op operation, nb::handle in, nb::handle out);
/// Like arrays_of, for operations in which only the root needs an array; the others may pass None.
Prepared rooted_arrays(Op operation, const Communicator& on, nb::handle in, nb::handle out, int root);
/// Makes the shorter array of an operation in place this rank's part of the other.
Prepared own_part(const CommunicatorHandle& self, Prepared&& prepared);

inline int root_of(nb::handle root) { return int_of(root, "the root"); }
inline bool is_list(nb::handle object) {
    return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

nb::object run(const CommunicatorHandle& self, Prepared&& prepared);
Started start(const CommunicatorHandle& self, Prepared&& prepared);
/// Runs an operation like `like` in place of each array of a list, and returns the list.
nb::object run_list(const CommunicatorHandle& self, nb::handle objects, const detail::Call& like);

/// Returns the signature of the method that starts an operation, which gives a Pending.
std::string start_signature(const std::string& signature);
/// Returns the text of that method.
std::string start_text(const std::string& signature);

/// Binds the method that starts an operation. `signature` is of the method that waits for it.
template <class... Handles>
void bind_start(nb::class_<CommunicatorHandle>& c, const std::string& signature,
                Prepared (*make)(const CommunicatorHandle&, Handles...)) {
    method(c, start_signature(signature), start_text(signature).c_str(),
           [make](const CommunicatorHandle& self, Handles... given) {
               return start(self, make(self, given...));
           });
}

/// Binds an operation by two methods: one waits for it, `start_` does not.
template <class... Handles>
void bind_operation(nb::class_<CommunicatorHandle>& c, const std::string& signature, const char* text,
                    Prepared (*make)(const CommunicatorHandle&, Handles...)) {
    method(c, signature, text, [make](const CommunicatorHandle& self, Handles... given) {
        return run(self, make(self, given...));
    });
    bind_start(c, signature, make);
}

}  // namespace rankmesh::python
