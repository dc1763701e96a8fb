#include "tokenizer/thinking.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/thinking_markers.h"

namespace varifocal {
namespace {

ThinkingRule Think(bool is_opened = false) { return {{"<think>", "</think>"}, is_opened, ""}; }

struct Split {
  const char* text;
  const char* state;
  const char* thinking;
  const char* answer;  // before the stop string "\n", stripped by the caller of the metric: here as it is
  bool is_opened = false;
};

// Texts of every kind with the stop string "\n", split as a whole, by hand.
TEST(Thinking, BytesOfAMarker) {
  const std::string longest(kThinkingMarkerBytesMax, 'x');
  EXPECT_TRUE(CheckThinkingMarkers({longest, "y"}).ok());
  EXPECT_THAT(CheckThinkingMarkers({"y", longest + "x"}).message(), Message("end", 257, 256));
  EXPECT_THAT(CheckThinkingMarkers({"", "y"}).message(), Message("begin", 0, 256));
}

TEST(Thinking, SplitsEveryKindOfAnswer) {
  const Split cases[] = {
      {"Paris\nmore", "none", "", "Paris"},
      {"\n\n Paris\nmore", "none", "", "\n\n Paris"},
      {"<think>Rome?\nNo.</think>\n\nParis\nmore", "closed", "Rome?\nNo.", "\n\nParis"},
      {" \n<think>Rome?</think>Paris", "closed", "Rome?", "Paris"},
      {"Rome? No.\n</think>\nParis", "closed", "Rome? No.", "\nParis", true},
      {"Rome? No.</think> Paris", "closed", "Rome? No.", " Paris"},  // a server left out the opening marker
      {"<think>Rome?\nLonger", "unfinished", "Rome?\nLonger", ""},
      {"Rome?\nLonger", "unfinished", "Rome?\nLonger", "", true},
      {"", "unfinished", "", "", true},
      {"", "none", "", ""},
      {"<think>\n\n</think>\n\nParis", "empty", "", "\n\nParis"},
      {"</think>Paris", "empty", "", "Paris", true},
      {"</think>Paris", "none", "", "Paris"},
      {"<think>a<think>b</think>c</think>Paris", "nested", "a<think>b\nc", "Paris"},
      {"<think>a<think>b</think>Paris", "nested", "a<think>b", "Paris"},
      {"<think>a</think>\n<think>b</think>\nParis", "repeated", "a\nb", "\nParis"},
      {"<think>a</think>Paris <think>b", "unfinished", "a\nb", ""},
      {"<think>a</think>Paris\n<think>b", "closed", "a", "Paris"},  // the stop string comes first
      {"Paris\nRome</think>x", "none", "", "Paris"},                // and here
  };
  for (const Split& c : cases) {
    const ThinkingSplit split = SplitThinking(c.text, Think(c.is_opened), std::vector<std::string>{"\n"});
    EXPECT_STREQ(ThinkingStateName(split.state), c.state) << c.text;
    EXPECT_EQ(split.thinking, c.thinking) << c.text;
    EXPECT_EQ(split.answer, c.answer) << c.text;
  }
}

// A growing text is first stopped exactly where the whole text is: an engine that looks after every token gives the answer
// of a server that sends all. All prefixes of texts over an alphabet of pieces.
TEST(Thinking, AGrowingTextStopsWhereTheWholeOneDoes) {
  const std::vector<std::string> pieces = {"a", "\n", "<th", "ink>", "</think>", "<"};
  const std::vector<std::string> several = {"\n", "a<"}, bracket = {"<"};
  int64_t checked = 0;
  for (int code = 0; code < 6 * 6 * 6 * 6 * 6 * 6; ++code) {
    std::vector<std::string> parts;
    for (int rest = code, i = 0; i < 6; ++i, rest /= 6) parts.push_back(pieces[rest % 6]);
    std::string whole;
    for (const std::string& part : parts) whole += part;
    for (const auto& [is_opened, stops] : {std::pair(false, several), {true, several}, {false, bracket}}) {
      const ThinkingSplit all = SplitThinking(whole, Think(is_opened), stops);
      std::string grown;
      ThinkingSplit seen;
      for (const std::string& part : parts) {
        grown += part;
        seen = SplitThinking(grown, Think(is_opened), stops);
        if (!seen.matched_stop.empty()) break;
      }
      ++checked;
      ASSERT_EQ(seen.matched_stop.empty(), all.matched_stop.empty()) << whole;
      ASSERT_EQ(seen.end, all.end) << whole;
      ASSERT_EQ(seen.answer, all.answer) << whole;
      ASSERT_EQ(seen.state, all.state) << whole;
    }
  }
  EXPECT_EQ(checked, 139'968);
}

TEST(Thinking, StopStringsAndForcedTextsAreOutsideOfBlocks) {
  const std::vector<std::string> stops = {".", "<"};
  const ThinkingSplit split = SplitThinking("<think>A. B.</think> Paris. More", Think(), stops);
  EXPECT_EQ(split.answer, " Paris");
  EXPECT_EQ(split.end, 26u);
  EXPECT_EQ(split.matched_stop, ".");
  ThinkingRule forced = Think(true);
  forced.forced_answer = "\n\nThe answer. is:";
  EXPECT_EQ(SplitThinking("A</think>\n\nThe answer. is: Paris. x", forced, stops).answer, " Paris");
}

TEST(Thinking, ChannelsAreMarkersLikeOthers) {
  const auto& [begin, end] = kKnownThinkingMarkers[1];
  const ThinkingRule rule = {{std::string(begin), std::string(end)}, false, ""};
  const ThinkingSplit split = SplitThinking(
      "<|channel|>analysis<|message|>Rome?<|end|><|start|>assistant<|channel|>final<|message|>Paris", rule, {});
  EXPECT_EQ(split.state, ThinkingState::kClosed);
  EXPECT_EQ(split.answer, "Paris");
  EXPECT_EQ(SplitThinking("<|channel|>final<|message|>Paris", rule, {}).state, ThinkingState::kNone);
  EXPECT_EQ(SplitThinking("<|channel|>final<|message|>Paris", rule, {}).answer, "Paris");
}

TEST(Thinking, APromptOpensABlockWhereNothingFollowsItsMarker) {
  EXPECT_TRUE(OpensThinking("<|assistant|><think>\n", Think().markers));
  EXPECT_FALSE(OpensThinking("<|assistant|><think>\n\n</think>\n\n", Think().markers));
  EXPECT_FALSE(OpensThinking("<think> is a marker", Think().markers));
}

}  // namespace
}  // namespace varifocal
