// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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
    Line& put(std::u32string_view text, Ink ink = {});
    Line& put(char32_t character, Ink ink = {});
    /// Appends blanks up to `column`.
    Line& to(int column);
    /// Overwrites the text from `column` on.
    void over(int column, std::u32string_view text, Ink ink);

    /// Returns the line in UTF-8 with a newline and without trailing blanks; with `color`, inks become escape
    /// sequences.
    std::string text(bool color) const;

private:
    struct Glyph {
        char32_t character;
        Ink ink;
    };
    std::vector<Glyph> glyphs_;
};

}  // namespace rankmesh::view
