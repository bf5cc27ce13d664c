// SPDX-License-Identifier: Apache-2.0
// The exceptions of rankmesh.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// The base class of all errors of rankmesh. The text says what was asked, what is true and what to do.
///
/// The text is valid UTF-8, without control characters except line ends, also where it quotes a file, a
/// server or an argument.
class RANKMESH_EXPORT Error : public std::runtime_error {
public:
    explicit Error(std::string_view text) : std::runtime_error(detail::escaped(text, "\n")) {}
};

/// The arguments of a call are wrong: a bad size, an unknown axis, a buffer of the wrong length.
///
/// The text has at most 2,000 bytes.
class RANKMESH_EXPORT UsageError : public Error {
public:
    explicit UsageError(std::string_view text)
        : Error(detail::shortened(detail::escaped(text, "\n"), detail::most_error_text)) {}
};

/// Ranks that must pass the same arguments passed different ones. `ranks` are the ranks outside the largest
/// set that agrees.
class RANKMESH_EXPORT Disagreement : public Error {
public:
    Disagreement(const std::string& text, std::vector<int> outside)
        : Error(text), ranks(std::move(outside)) {}
    std::vector<int> ranks;
};

/// A timeout expired. `arrived` and `missing` are world ranks; both are empty if the engine does not know
/// them. `seen` says what the first few missing ranks did last, or is "" if the engine does not know. The
/// text of the error ends with `seen`.
class RANKMESH_EXPORT Timeout : public Error {
public:
    Timeout(const std::string& text, std::vector<int> came, std::vector<int> absent,
            const std::string& doing = {})
        : Error(doing.empty() ? text : text + "; " + doing),
          arrived(std::move(came)),
          missing(std::move(absent)),
          seen(doing) {}
    std::vector<int> arrived;
    std::vector<int> missing;
    std::string seen;
};

/// Peers are gone: an exception left their program, or their process ended. `ranks` are world ranks.
class RANKMESH_EXPORT PeerLost : public Error {
public:
    PeerLost(const std::string& text, std::vector<int> gone) : Error(text), ranks(std::move(gone)) {}
    std::vector<int> ranks;
};

/// The engine (MPI, Gloo, NCCL, the system) reported an error.
class RANKMESH_EXPORT EngineFailure : public Error {
public:
    using Error::Error;
};

/// This build does not have the requested engine.
class RANKMESH_EXPORT NotBuilt : public Error {
public:
    using Error::Error;
};

namespace detail {

inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, char c) { out += c; }
template <class Number>
    requires std::is_arithmetic_v<Number>
void append(std::string& out, Number number) {
    out += std::to_string(number);
}

/// Returns the parts as one text, numbers in decimal.
template <class... Parts>
std::string cat(const Parts&... parts) {
    auto out = std::string{};
    (append(out, parts), ...);
    return out;
}

/// Returns a number with its noun: `1 rank`, `8 ranks`.
template <class Number>
std::string counted(Number count, std::string_view one) {
    return cat(count, " ", one, count == 1 ? "" : "s");
}

}  // namespace detail
}  // namespace rankmesh
