// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic by DType, for what engines do not do themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <rankmesh/engine/dtype.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

/// Calls `body` with a null pointer to the C++ type of `dtype`.
template <class Body>
void with_type(DType dtype, Body&& body) {
    switch (dtype) {
        case DType::i32:
            return body(static_cast<std::int32_t*>(nullptr));
        case DType::i64:
            return body(static_cast<std::int64_t*>(nullptr));
        case DType::f32:
            return body(static_cast<float*>(nullptr));
        case DType::f64:
            return body(static_cast<double*>(nullptr));
    }
}

/// Combines two elements; integer sums wrap around, as the engines' do. A mean is a sum until it is scaled.
template <class T>
T combine(Reduction reduction, T a, T b) {
    switch (reduction) {
        case Reduction::min:
            return std::min(a, b);
        case Reduction::max:
            return std::max(a, b);
        case Reduction::sum:
        case Reduction::mean:
            break;
    }
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                              static_cast<std::make_unsigned_t<T>>(b));
    else
        return a + b;
}

/// Divides `count` elements by `divisor`: what turns a sum into a mean.
inline void divide(DType dtype, void* data, std::size_t count, int divisor) {
    with_type(dtype, [&]<class T>(T*) {
        const auto values = static_cast<T*>(data);
        for (std::size_t i = 0; i < count; ++i) values[i] /= static_cast<T>(divisor);
    });
}

}  // namespace rankmesh::detail
