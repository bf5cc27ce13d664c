// SPDX-License-Identifier: Apache-2.0
// Reproducible sums, and extremes with their locations.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/engine/detail/make_call.hpp>
#include <rankmesh/engine/location.hpp>

#include "engine/access.hpp"
#include "engine/array.hpp"
#include "engine/engine.hpp"
#include "engine/interrupt.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;
using Self = CommunicatorHandle;

/// The pairs of a location, copied to and from two arrays.
class Pairs {
public:
    Pairs(const char* name, nb::handle values, nb::handle indices)
        : values_(contiguous_array_of(values, cat("the values of ", name), true)),
          indices_(contiguous_array_of(indices, cat("the indices of ", name), true)) {
        if (indices_.dtype != DType::i64)
            throw UsageError(cat("the indices of ", name, " are ", to_string(indices_.dtype),
                                 "; they must be i64, as numpy.int64 is"));
        if (indices_.count != values_.count / values_.unit)
            throw UsageError(cat(name, " was given ", values_.count / values_.unit, " values and ",
                                 indices_.count, " indices; both must be equal"));
        if (values_.unit == 1) copy([](void* pair, void* of, std::size_t n) { std::memcpy(pair, of, n); });
    }
    detail::AnyBuffer<void> buffer() { return {pairs_.data(), values_.count, values_.dtype, values_.unit}; }
    void write() {
        copy([](void* pair, void* of, std::size_t n) { std::memcpy(of, pair, n); });
    }

private:
    template <class Copy>
    void copy(Copy&& copy) {
        pairs_.resize(indices_.count);
        const auto width = size_of(values_.dtype);
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            auto* pair = reinterpret_cast<char*>(&pairs_[i]);
            copy(pair, static_cast<char*>(values_.data) + i * width, width);
            copy(pair + offsetof(Located<double>, index),
                 static_cast<char*>(indices_.data) + i * sizeof(std::int64_t), sizeof(std::int64_t));
        }
    }
    Array values_;
    Array indices_;
    std::vector<Located<double>> pairs_;
};

nb::object locate(const Self& self, Reduction reduction, nb::handle values, nb::handle indices) {
    auto pairs = Pairs(std::string(to_string(reduction)).c_str(), values, indices);
    auto& on = self.get();
    const auto call =
        detail::make_reduction(detail::Operation::all_reduce, pairs.buffer(), pairs.buffer(), reduction);
    without_gil(leaving(on), [&] { detail::Access::run(on, call); });
    pairs.write();
    return nb::make_tuple(nb::borrow(values), nb::borrow(indices));
}

double sum_reproducibly(const Self& self, const Array& x, const std::optional<Array>& y) {
    auto& on = self.get();
    const auto layout_of = [](const Array& array) {
        return array.layout ? *array.layout : detail::MemoryLayout();
    };
    const auto x_layout = layout_of(x);
    const auto y_layout = y ? layout_of(*y) : detail::MemoryLayout();
    return result_without_gil(leaving(on),
                              [&] { return detail::Access::sum_reproducibly(on, x, y, x_layout, y_layout); });
}

}  // namespace

void bind_sums_and_locations(nb::class_<CommunicatorHandle>& c) {
    method(c, "def reproducible_sum(self, buffer: typing.Any) -> float",
           "Returns the sum of all elements of all ranks' `buffer`, whose lengths may differ: exact, then "
           "rounded once to the type of the elements. The same bits on every engine, and however the "
           "elements are spread over the ranks.",
           [](const Self& self, nb::handle buffer) {
               return sum_reproducibly(self, array_of(buffer, "the buffer of reproducible_sum", false), {});
           });
    method(c, "def reproducible_dot(self, x: typing.Any, y: typing.Any) -> float",
           "Returns the scalar product of all ranks' `x` and `y` like reproducible_sum; each product is "
           "rounded to double.",
           [](const Self& self, nb::handle x, nb::handle y) {
               return sum_reproducibly(self, array_of(x, "the first buffer of reproducible_dot", false),
                                       array_of(y, "the second buffer of reproducible_dot", false));
           });
    method(c, "def min_location(self, values: _T, indices: _T) -> tuple[_T, _T]",
           "Replaces each element of `values` by the least of all ranks, and that of `indices`, which are "
           "int64, by the index that stood beside it; of equal values the lowest index. A NaN counts as less "
           "than every number. Returns both arrays.",
           [](const Self& self, nb::handle values, nb::handle indices) {
               return locate(self, Reduction::min_location, values, indices);
           });
    method(c, "def max_location(self, values: _T, indices: _T) -> tuple[_T, _T]",
           "Like min_location, for the greatest values. A NaN counts as greater than every number.",
           [](const Self& self, nb::handle values, nb::handle indices) {
               return locate(self, Reduction::max_location, values, indices);
           });
}

}  // namespace rankmesh::python
