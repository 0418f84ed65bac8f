// SPDX-License-Identifier: Apache-2.0
#include "ci/output/text.h"

#include <cstdint>

namespace lockstep::output {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Character {
  uint32_t code;
  size_t bytes;  // 0: no character begins here
};

uint32_t byte_at(std::string_view s, size_t i) {
  return i < s.size() ? static_cast<unsigned char>(s[i]) : 0;
}

bool follows(std::string_view s, size_t i) {
  return (byte_at(s, i) & 0xc0) == 0x80;
}

// The first character: of the shortest form, no half of a UTF-16 pair, none beyond U+10FFFF.
Character decode(std::string_view s) {
  const uint32_t first = byte_at(s, 0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!follows(s, i)) return {0, 0};
    code = code << 6 | (byte_at(s, i) & 0x3f);
  }
  const uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (first < 0xc0 || first > 0xf4 || code < least || surrogate || code > 0x10ffff) return {0, 0};
  return {code, bytes};
}

// C1 controls, marks that turn the direction of writing, line and paragraph separators, what XML 1.0 forbids.
bool unsafe(uint32_t c) {
  return (c >= 0x80 && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfffe || c == 0xffff;
}

void append_picture(std::string& out, uint32_t control) {
  const uint32_t code = control == 0x7f ? 0x2421 : 0x2400 + control;
  out += static_cast<char>(0xe0 | code >> 12);
  out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
  out += static_cast<char>(0x80 | (code & 0x3f));
}

// Each character as `show` appends it.
template <class Show>
std::string translate(std::string_view text, Show&& show) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = decode(text);
    if (c.bytes == 0)
      out += kReplacement;
    else
      show(out, c.code, text.substr(0, c.bytes));
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

std::string shown(std::string_view text, bool lines) {
  return translate(text, [lines](std::string& out, uint32_t code, std::string_view bytes) {
    if ((code < 0x20 && !(lines && (code == '\n' || code == '\t'))) || code == 0x7f)
      append_picture(out, code);
    else
      out += unsafe(code) ? kReplacement : bytes;
  });
}

}  // namespace

std::string utf8(std::string_view text) {
  return translate(text, [](std::string& out, uint32_t, std::string_view bytes) { out += bytes; });
}

std::string visible(std::string_view text) {
  return shown(text, true);
}

std::string one_line(std::string_view text) {
  return shown(text, false);
}

std::string cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most - 34;  // room for the note, whatever the number
  while (end > 0 && follows(text, end)) --end;
  return text.substr(0, end) + "… (+" + std::to_string(text.size() - end) + " bytes)";
}

std::string plural(long n, std::string_view singular, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? singular : many);
}

}  // namespace lockstep::output
