// The colours of the page's style sheet, light, dark and printed: text is readable on every ground, and marks of charts
// are seen.
// Method: the contrast of WCAG 2.1 (relative luminances; 4.5 for text, 3 for marks) of every pair.

#include <map>

#include "tests/fakes/report_fixture.h"

namespace varifocal {
namespace {

constexpr double kText = 4.5, kMark = 3;
constexpr int kColorCount = 12;
constexpr char kSheet[] = "client/report/page/page.css";

struct Color {
  double red = 0, green = 0, blue = 0;  // 0 to 1
};

double Linear(double part) { return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4); }
double Luminance(const Color& c) { return 0.2126 * Linear(c.red) + 0.7152 * Linear(c.green) + 0.0722 * Linear(c.blue); }
double Contrast(const Color& a, const Color& b) {
  const double of_a = Luminance(a), of_b = Luminance(b);
  return (std::max(of_a, of_b) + 0.05) / (std::min(of_a, of_b) + 0.05);
}

using Palette = std::map<std::string, Color>;

// The colours of the `:root` that begins at or after `from`, over those of `palette`.
Palette ReadPalette(const std::string& css, size_t from, Palette palette) {
  const size_t begin = css.find(":root {", from), end = css.find('}', begin);
  EXPECT_NE(end, std::string::npos);
  for (size_t at = css.find("--", begin); at < end; at = css.find("--", at + 2)) {
    const size_t colon = css.find(':', at), hash = css.find('#', colon);
    if (hash != colon + 2) continue;
    const auto part = [&](size_t i) { return std::stoi(css.substr(hash + 1 + 2 * i, 2), nullptr, 16) / 255.0; };
    palette[css.substr(at + 2, colon - at - 2)] = {part(0), part(1), part(2)};
  }
  return palette;
}

TEST(PageContrast, OfTextAndMarks) {
  const std::string css = ReadFile(kSheet);
  const size_t dark = css.find("prefers-color-scheme: dark"), print = css.find("@media print");
  ASSERT_NE(dark, std::string::npos);
  ASSERT_NE(print, std::string::npos);
  const Palette light = ReadPalette(css, 0, {});
  ASSERT_EQ(light.size(), 9u + kColorCount) << "a new colour needs a row below";
  for (const auto& [name, palette] : {std::pair("light", light), std::pair("dark", ReadPalette(css, dark, light)),
                                      std::pair("print", ReadPalette(css, print, light))}) {
    SCOPED_TRACE(name);
    const auto of = [&, &colors = palette](const std::string& color) { return colors.at(color); };
    for (const char* text : {"ink", "soft", "accent", "good", "bad"}) {
      for (const char* ground : {"paper", "wash"})
        EXPECT_GE(Contrast(of(text), of(ground)), kText) << text << " on " << ground;
    }
    EXPECT_GE(Contrast(of("ink"), of("mark")), kText);
    for (int c = 0; c < kColorCount; ++c) EXPECT_GE(Contrast(of(absl::StrCat("c", c)), of("paper")), kMark) << "c" << c;
    // A cell of a heat map is the colour c1 over the wash, up to the share of the style sheet.
    const std::string mix = "var(--c1) calc(var(--v, 0) * ";
    const size_t share_at = css.find(mix);
    ASSERT_NE(share_at, std::string::npos);
    const double share = std::stod(css.substr(share_at + mix.size()));
    for (int shade = 0; shade <= 100; shade += 5) {
      const double part = share * shade / 100;
      const auto blend = [&](double Color::*member) {
        return part * (of("c1").*member) + (1 - part) * (of("wash").*member);
      };
      EXPECT_GE(Contrast(of("ink"), {blend(&Color::red), blend(&Color::green), blend(&Color::blue)}), kText) << shade;
    }
  }
}

// Text in a colour of its own is in the list above: no other rule fades or colours text.
TEST(PageContrast, NoOpacityOnText) {
  const std::string css = ReadFile(kSheet);
  size_t count = 0;
  for (size_t at = css.find("opacity"); at != std::string::npos; at = css.find("opacity", at + 1)) ++count;
  EXPECT_EQ(count, 1u) << "that of bands";
}

}  // namespace
}  // namespace varifocal
