// SPDX-License-Identifier: Apache-2.0
// What most tests of conformance ask for, compiled once.
#include "operations.hpp"

namespace operations {

template void check_all<std::int32_t>(Communicator&, int, std::size_t);
template void check_all<std::int64_t>(Communicator&, int, std::size_t);
template void check_all<float>(Communicator&, int, std::size_t);
template void check_all<double>(Communicator&, int, std::size_t);

}  // namespace operations
