// SPDX-License-Identifier: Apache-2.0
#include "engine/arithmetic.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "operations.hpp"

using namespace rankmesh;

namespace {

template <class T>
struct Elements {
    std::unique_ptr<T[]> values = std::make_unique<T[]>(count);
    static constexpr std::size_t count = 33;
    Elements(Reduction reduction, int rank) {
        for (std::size_t i = 0; i < count; ++i) values[i] = operations::payload<T>(reduction, rank, i);
    }
};

}  // namespace

TEST(Arithmetic, TwoAreCombinedAlsoInThePlaceOfEither) {
    for (auto index = 0; index <= static_cast<int>(DType::f64); ++index) {
        const auto dtype = static_cast<DType>(index);
        detail::with_type(dtype, [&]<class T>(T*) {
            for (auto reduction : {Reduction::sum, Reduction::prod, Reduction::min, Reduction::max,
                                   Reduction::bit_and, Reduction::bit_or, Reduction::bit_xor,
                                   Reduction::logical_and, Reduction::logical_or, Reduction::logical_xor}) {
                if (!reduces(reduction, dtype)) continue;
                SCOPED_TRACE(detail::cat(to_string(reduction), " of ", to_string(dtype)));
                for (auto place : {0, 1, 2}) {  // of the first, of the second, elsewhere
                    auto lists = std::vector<Elements<T>>{};
                    for (auto rank : {0, 1, 2}) lists.emplace_back(reduction, rank);
                    const auto at = [&](int i) { return lists[static_cast<std::size_t>(i)].values.get(); };
                    detail::reduce(reduction, dtype, at(place), at(0), at(1), Elements<T>::count - 1);
                    for (std::size_t i = 0; i < Elements<T>::count - 1; ++i)
                        EXPECT_EQ(at(place)[i], operations::reduced<T>({0, 1}, i, reduction)) << i;
                    for (auto rank : {0, 1, 2})
                        for (std::size_t i = 0; i < Elements<T>::count; ++i)
                            if (rank != place || i + 1 == Elements<T>::count) {
                                EXPECT_EQ(at(rank)[i], operations::payload<T>(reduction, rank, i));
                            }
                }
            }
        });
    }
}
