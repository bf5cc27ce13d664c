// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/arithmetic.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fake_nccl {
namespace {

/// How a type is counted with: integers wrap around, all others are doubles that are rounded at the end.
template <class T>
struct Number {
    using Wide = double;
    static double wide(T value) { return static_cast<double>(static_cast<float>(value)); }
    static T narrow(double value) { return T(static_cast<float>(value)); }
};
template <>
struct Number<double> {
    using Wide = double;
    static double wide(double value) { return value; }
    static double narrow(double value) { return value; }
};
template <class T>
requires std::is_integral_v<T>
struct Number<T> {
    using Wide = T;
    static T wide(T value) { return value; }
    static T narrow(T value) { return value; }
};

template <class T>
T times(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
        return a * b;
}
template <class T>
T plus(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
        return a + b;
}

template <class T>
T element(const char* bytes, std::size_t i) {
    auto value = T{};
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    return value;
}

template <class T>
std::string reduce(ncclRedOp_t reduction, const std::vector<std::string>& pieces) {
    using Wide = typename Number<T>::Wide;
    auto out = pieces.front();
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
        auto all = Number<T>::wide(element<T>(pieces[0].data(), i));
        for (std::size_t from = 1; from < pieces.size(); ++from) {
            const auto next = Number<T>::wide(element<T>(pieces[from].data(), i));
            switch (reduction) {
                case ncclProd:
                    all = times<Wide>(all, next);
                    break;
                case ncclMax:
                    all = std::max(all, next);
                    break;
                case ncclMin:
                    all = std::min(all, next);
                    break;
                default:
                    all = plus<Wide>(all, next);
            }
        }
        if (reduction == ncclAvg) all = static_cast<Wide>(all / static_cast<Wide>(pieces.size()));
        const auto narrow = Number<T>::narrow(all);
        std::memcpy(out.data() + i * sizeof(T), &narrow, sizeof(T));
    }
    return out;
}

template <class T>
std::string scale(const std::string& piece, const char* scalar) {
    using Wide = typename Number<T>::Wide;
    auto out = piece;
    const auto factor = Number<T>::wide(element<T>(scalar, 0));
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
        const auto product =
            Number<T>::narrow(times<Wide>(Number<T>::wide(element<T>(piece.data(), i)), factor));
        std::memcpy(out.data() + i * sizeof(T), &product, sizeof(T));
    }
    return out;
}

/// Calls with a value of the type that a name stands for.
template <class Call>
std::string with_type(ncclDataType_t type, const Call& call) {
    switch (type) {
        case ncclInt8:
            return call(std::int8_t{});
        case ncclUint8:
            return call(std::uint8_t{});
        case ncclInt32:
            return call(std::int32_t{});
        case ncclUint32:
            return call(std::uint32_t{});
        case ncclInt64:
            return call(std::int64_t{});
        case ncclUint64:
            return call(std::uint64_t{});
        case ncclFloat16:
            return call(__half{});
        case ncclFloat64:
            return call(double{});
        case ncclBfloat16:
            return call(__nv_bfloat16{});
        case ncclFloat8e4m3:
            return call(__nv_fp8_e4m3{});
        case ncclFloat8e5m2:
            return call(__nv_fp8_e5m2{});
        default:
            return call(float{});
    }
}

}  // namespace

std::string reduced(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<std::string>& pieces) {
    return with_type(type, [&](auto one) { return reduce<decltype(one)>(reduction, pieces); });
}

std::string scaled(ncclDataType_t type, const std::string& piece, const char* scalar) {
    return with_type(type, [&](auto one) { return scale<decltype(one)>(piece, scalar); });
}

}  // namespace fake_nccl
