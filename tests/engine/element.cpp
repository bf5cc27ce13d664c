// SPDX-License-Identifier: Apache-2.0
// What is an element: by its members, or because it says so.
#include <rankmesh/engine/element.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <complex>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace {

enum class Colour : std::uint8_t { red };
struct Token {
    int id = 0;
    float weight = 0;
};
struct Pointing {
    float* data;
    int size;
};
struct Derived : Token {
    double more;
};
struct Mixed {
    char kind;
    double numbers[2][3];
    Token token;
    std::array<Token, 3> tokens;
    std::complex<float> phase;
    Colour colour;
    bool done;
};
struct Large {
    std::array<float, 100000> numbers;
};
struct Members256 {
    char text[256];
};
struct Members257 {
    char text[257];
};
/// In each a pointer, or what may be one, stands where members have passed.
struct Last {
    int size;
    float* data;
};
struct Deep {
    Token token;
    std::array<Pointing, 2> rows;
};
struct Array {
    int size;
    const float* rows[4];
};
struct Reference {
    int n;
    const float& number;
};
struct ToMember {
    int Token::*member;
};
struct ToFunction {
    int n;
    void (*function)();
};
union Either {
    int number;
    float* data;
};
struct OfUnion {
    int kind;
    Either either;
};
struct OfUnions {
    std::array<Either, 2> either;
};
struct Anonymous {
    int kind;
    union {
        float number;
        float* data;
    };
};
struct Shown {
    std::span<float> numbers;
    int rows;
};
struct Perhaps {
    int n;
    std::optional<float*> data;
};

/// Members that would convert from anything by a constructor of their own.
struct OfVariant {
    std::variant<int, const char*> value;
    int n;
};
class FromAnything {
public:
    FromAnything() = default;
    template <class T>
    FromAnything(const T&) noexcept {}

private:
    [[maybe_unused]] const char* text_ = nullptr;
};
struct OfFromAnything {
    int n;
    FromAnything any;
};
struct OfOptional {
    std::optional<int> perhaps;
};
/// The shape of a complex number, whose parts are elsewhere.
struct SplitPhase {
    using value_type = double;
    const double* re;
    const double* im;
    double real() const { return *re; }
    double imag() const { return *im; }
};
struct BitFields {
    unsigned a : 1, b : 1, c : 1, d : 1, e : 1;
};

class Closed {
public:
    explicit Closed(float* data) : data_(data) {}
    float* data() const { return data_; }

private:
    float* data_;
};
class Counted {
public:
    explicit Counted(int n) : n_(n) {}
    int n() const { return n_; }

private:
    int n_;
};
class Declared : public Counted {
    using Counted::Counted;
};

/// A complex number of another library.
struct Phase {
    using value_type = double;
    double parts[2];
    double real() const { return parts[0]; }
    double imag() const { return parts[1]; }
};

}  // namespace

template <>
inline constexpr bool rankmesh::enable_element<Declared> = true;

namespace rankmesh {
namespace {

static_assert(Element<int> && Element<long double> && Element<bool> && Element<std::byte> && Element<Colour>);
static_assert(Element<f16> && Element<bf16> && Element<f8e4m3>);
static_assert(Element<Token> && Element<Derived> && Element<Mixed> && Element<Large>);
static_assert(Element<float[3][4]> && Element<std::array<Token, 2>> && Element<Members256>);
static_assert(!Element<Members257>, "it must say so");
static_assert(!Element<OfVariant> && !Element<OfFromAnything> && !Element<OfOptional> &&
              !Element<SplitPhase>);
static_assert(Element<BitFields>);
#ifdef __SIZEOF_INT128__
__extension__ using Wide = __int128;
static_assert(!Known<Wide>, "no engine has it, and an element of 16 bytes is not one of 1");
#endif
static_assert(Element<Declared> && !Element<Counted>, "what is no aggregate must say so");
static_assert(!Element<std::chrono::nanoseconds> && !Element<std::pair<int, int>>);

static_assert(!Element<float*> && !Element<float* [2]> && !Element<std::array<float*, 2>>);
static_assert(!Element<Pointing> && !Element<Last> && !Element<Deep> && !Element<Array>);
static_assert(!Element<Reference> && !Element<ToMember> && !Element<ToFunction>);
static_assert(!Element<Either> && !Element<OfUnion> && !Element<OfUnions> && !Element<Anonymous>);
static_assert(!Element<Shown> && !Element<Perhaps> && !Element<Closed>);
static_assert(!Element<std::span<float>> && !Element<std::reference_wrapper<float>>);
static_assert(!Element<std::string_view> && !Element<std::string>);

using detail::Complex;
static_assert(Complex<std::complex<float>> && Complex<std::complex<double>> && Complex<Phase>);
static_assert(!Complex<std::complex<long double>> && !Complex<Token> && !Complex<double>);
static_assert(Element<std::complex<float>> && !Element<std::complex<long double>>);

}  // namespace
}  // namespace rankmesh
