// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::view {

/// The style of a character: a foreground colour of the terminal, and weight.
struct Ink {
    int color = 0;  // SGR code, 0: the terminal's own
    bool bold = false;
    bool dim = false;
    bool reverse = false;
    friend bool operator==(const Ink&, const Ink&) = default;
};

/// Returns the characters of an ASCII text.
inline std::u32string wide(std::string_view ascii) { return {ascii.begin(), ascii.end()}; }

/// One line of characters of one column each. Text is appended, or written over earlier text.
class Line {
public:
    int width() const { return static_cast<int>(glyphs_.size()); }
    Line& put(std::u32string_view text, Ink ink = {}) {
        for (auto c : text) put(c, ink);
        return *this;
    }
    Line& put(char32_t character, Ink ink = {}) {
        glyphs_.push_back({character, ink});
        return *this;
    }
    /// Appends blanks up to `column`.
    Line& to(int column) {
        while (width() < column) put(U' ');
        return *this;
    }
    /// Overwrites the text from `column` on.
    void over(int column, std::u32string_view text, Ink ink) {
        for (auto c : text) glyphs_[static_cast<std::size_t>(column++)] = {c, ink};
    }

    /// Returns the line in UTF-8 with a newline and without trailing blanks; with `color`, inks become escape
    /// sequences.
    std::string text(bool color) const {
        auto out = std::string{};
        auto count = glyphs_.size();
        while (count > 0 && glyphs_[count - 1].character == U' ' && !glyphs_[count - 1].ink.reverse) --count;
        auto ink = Ink{};
        for (std::size_t i = 0; i < count; ++i) {
            if (color && glyphs_[i].ink != ink) out += escape_of(ink = glyphs_[i].ink);
            append_utf8(out, glyphs_[i].character);
        }
        if (ink != Ink{}) out += "\033[0m";
        return out + '\n';
    }

private:
    /// Appends a character below 2^16.
    static void append_utf8(std::string& out, char32_t c) {
        const auto byte = [&](char32_t value) { out += static_cast<char>(value); };
        if (c < 0x80) return byte(c);
        if (c < 0x800) return byte(0xC0 | (c >> 6)), byte(0x80 | (c & 0x3F));
        byte(0xE0 | (c >> 12)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
    }

    /// Returns the escape sequence that begins an ink.
    static std::string escape_of(Ink ink) {
        auto out = std::string("\033[0");
        if (ink.bold) out += ";1";
        if (ink.dim) out += ";2";
        if (ink.reverse) out += ";7";
        if (ink.color != 0) out += ';' + std::to_string(ink.color);
        return out + 'm';
    }

    struct Glyph {
        char32_t character;
        Ink ink;
    };
    std::vector<Glyph> glyphs_;
};

}  // namespace rankmesh::view
