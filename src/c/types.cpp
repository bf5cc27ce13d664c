// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <limits>

#include "c/handles.hpp"

using namespace rankmesh;
using c::Wrong;
using detail::cat;

namespace {

// The enumerators of C and C++ have the same values.
static_assert(RANKMESH_I8 == static_cast<int>(DType::i8) && RANKMESH_I16 == static_cast<int>(DType::i16) &&
              RANKMESH_I32 == static_cast<int>(DType::i32) && RANKMESH_I64 == static_cast<int>(DType::i64) &&
              RANKMESH_U8 == static_cast<int>(DType::u8) && RANKMESH_U16 == static_cast<int>(DType::u16) &&
              RANKMESH_U32 == static_cast<int>(DType::u32) && RANKMESH_U64 == static_cast<int>(DType::u64));
static_assert(RANKMESH_BOOL == static_cast<int>(DType::boolean) &&
              RANKMESH_BYTE == static_cast<int>(DType::byte) &&
              RANKMESH_F8E4M3 == static_cast<int>(DType::f8e4m3) &&
              RANKMESH_F8E5M2 == static_cast<int>(DType::f8e5m2) &&
              RANKMESH_F16 == static_cast<int>(DType::f16) &&
              RANKMESH_BF16 == static_cast<int>(DType::bf16) &&
              RANKMESH_F32 == static_cast<int>(DType::f32) && RANKMESH_F64 == static_cast<int>(DType::f64));
constexpr auto dtypes = static_cast<int>(std::size(detail::dtype_sizes));
static_assert(dtypes == RANKMESH_F64 + 1, "a type is missing in rankmesh.h");

static_assert(RANKMESH_SUM == static_cast<int>(Reduction::sum) &&
              RANKMESH_PROD == static_cast<int>(Reduction::prod) &&
              RANKMESH_MIN == static_cast<int>(Reduction::min) &&
              RANKMESH_MAX == static_cast<int>(Reduction::max) &&
              RANKMESH_MEAN == static_cast<int>(Reduction::mean) &&
              RANKMESH_BIT_AND == static_cast<int>(Reduction::bit_and) &&
              RANKMESH_BIT_OR == static_cast<int>(Reduction::bit_or) &&
              RANKMESH_BIT_XOR == static_cast<int>(Reduction::bit_xor) &&
              RANKMESH_LOGICAL_AND == static_cast<int>(Reduction::logical_and) &&
              RANKMESH_LOGICAL_OR == static_cast<int>(Reduction::logical_or) &&
              RANKMESH_LOGICAL_XOR == static_cast<int>(Reduction::logical_xor) &&
              RANKMESH_REPRODUCIBLE_SUM == static_cast<int>(Reduction::reproducible_sum) &&
              RANKMESH_MIN_LOCATION == static_cast<int>(Reduction::min_location) &&
              RANKMESH_MAX_LOCATION == static_cast<int>(Reduction::max_location));

}  // namespace

DType c::type_of(rankmesh_dtype dtype) {
    if (dtype < 0 || dtype >= dtypes)
        throw Wrong{cat("was given the dtype ", dtype,
                        "; there are RANKMESH_I8, which is 0, to RANKMESH_F64, which is ", dtypes - 1)};
    return static_cast<DType>(dtype);
}

void c::check_size(std::size_t count, DType dtype, std::string_view whose) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (count > most / size_of(dtype))
        throw Wrong{cat("was given ", whose, " more than memory has room for")};
}

Reduction c::reduction_of(rankmesh_reduction reduction) {
    constexpr auto last = static_cast<int>(RANKMESH_MAX_LOCATION);
    if (reduction < RANKMESH_SUM || reduction > last)
        throw Wrong{cat("was given the reduction ", reduction,
                        "; there are RANKMESH_SUM, which is 0, to RANKMESH_MAX_LOCATION, which is ", last)};
    return static_cast<Reduction>(reduction);
}

size_t rankmesh_dtype_size(rankmesh_dtype dtype) {
    return dtype < 0 || dtype >= dtypes ? 0 : size_of(static_cast<DType>(dtype));
}
