// SPDX-License-Identifier: Apache-2.0
// Gloo's headers for TCP include a header of this name, which Debian's package leaves out. This stands in for
// it with what the others name, in the layout that the library was built with; tests/engine/gloo_layout.cpp
// compares it with the library.
#pragma once

#include <memory>

namespace gloo {

/// An object that another owns, held while it is used.
template <class T>
class NonOwningPtr final {
    std::shared_ptr<T> held_;
};

/// An object that another owns, which may have gone.
template <class T>
class WeakNonOwningPtr final {
    std::weak_ptr<T> watched_;
};

}  // namespace gloo
