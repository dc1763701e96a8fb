// Behaviour not covered by golden files: texts that are not UTF-8, options, ids without a token, long words against
// short ones, and the hand-written scanners against the regular expressions they replace.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/regex.h"
#include "tokenizer/subword_models.h"
#include "tokenizer/utf8.h"
#include "tokenizer/word_scanner.h"

namespace varifocal {
namespace {

using testing::ElementsAre;

class Random {  // a small generator, so that failures are reproducible
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t Below(uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

std::shared_ptr<const Tokenizer> Shipped() {
  static const auto* tokenizer = new std::shared_ptr<const Tokenizer>(*Tokenizer::Load("models/baseline"));
  return *tokenizer;
}

TEST(Utf8Test, RepairsByMaximalSubparts) {
  // Examples of the Unicode standard, tables 3-8 to 3-11, and their number of replacements.
  const std::tuple<const char*, const char*, int> cases[] = {
      {"plain", "plain", 0},
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41", 8},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41", 8},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42", 7},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\x41", 4},
      {"12345678\xE2\x82", "12345678\uFFFD", 1},
  };
  for (const auto& [text, wanted, count] : cases) {
    std::string repaired;
    EXPECT_EQ(AppendRepairedUtf8(text, repaired), count) << wanted;
    EXPECT_EQ(repaired, wanted);
  }
}

TEST(EncodeTest, CountsReplacements) {
  int64_t count = 5;
  const auto ids = Shipped()->Encode(
      "a\xFF"
      "b\xC3",
      {.invalid_utf8_count = &count});
  EXPECT_EQ(*ids, *Shipped()->Encode("a\uFFFDb\uFFFD"));
  EXPECT_EQ(count, 7);  // added to what was there
}

TEST(EncodeTest, NulIsText) {
  const std::string text("a\0b\0", 4);
  const auto ids = *Shipped()->Encode(text);
  EXPECT_EQ(ids.size(), 5u);
  EXPECT_EQ(*Shipped()->Decode(ids), text);
}

TEST(EncodeTest, Options) {
  const auto& tokenizer = *Shipped();
  const int32_t begin = *tokenizer.TokenToId("<|begin|>"), end = *tokenizer.TokenToId("<|end|>");
  EXPECT_THAT(*tokenizer.Encode(""), ElementsAre(begin));
  EXPECT_THAT(*tokenizer.Encode("", {.add_special_tokens = false}), ElementsAre());
  EXPECT_THAT(*tokenizer.Encode("<|end|>"), ElementsAre(begin, end));
  const auto text = *tokenizer.Encode("<|end|>", {.add_special_tokens = false, .special_tokens_as_text = true});
  EXPECT_GT(text.size(), 1u);
  EXPECT_EQ(*tokenizer.Decode(text), "<|end|>");
  EXPECT_EQ(*tokenizer.Decode({begin, end}), "");
  EXPECT_EQ(*tokenizer.Decode({begin, end}, {.keep_special_tokens = true}), "<|begin|><|end|>");
  EXPECT_EQ(*tokenizer.CountTokens("<|end|>"), 2);
}

// Special tokens are text in the plain parts, and tokens elsewhere.
TEST(EncodeTest, PlainPartsHaveNoSpecialTokens) {
  const auto& tokenizer = *Shipped();
  const int32_t end = *tokenizer.TokenToId("<|end|>");
  const std::string text = "<|end|>a<|end|>b<|end|>";
  const auto count = [&](std::vector<TextRange> parts, const std::string& of) {
    const auto ids = *tokenizer.Encode(of, {.add_special_tokens = false, .plain_parts = parts});
    EXPECT_EQ(*tokenizer.Decode(ids, {.keep_special_tokens = true}), of);
    return std::count(ids.begin(), ids.end(), end);
  };
  EXPECT_EQ(count({}, text), 3);
  EXPECT_EQ(count({{0, 7}}, text), 2);
  EXPECT_EQ(count({{7, 8}}, text), 3) << "next to a token";
  EXPECT_EQ(count({{8, 15}}, text), 2);
  EXPECT_EQ(count({{0, 1}, {14, 17}}, text), 0) << "one byte of each";
  EXPECT_EQ(count({{0, 23}}, text), 0);
  // Ranges refer to the original text, before repair.
  const auto repaired = *tokenizer.Encode("\xFF\xFF<|end|>x<|end|>",
                                          {.add_special_tokens = false, .plain_parts = std::vector<TextRange>{{0, 9}}});
  EXPECT_EQ(std::count(repaired.begin(), repaired.end(), end), 1);
  EXPECT_EQ(repaired.back(), end);
}

// Special tokens that are matched in the normalized text are mapped to their position in the original text.
TEST(EncodeTest, PlainPartsOfANormalizedText) {
  const auto tokenizer = Tokenizer::FromJson(R"({
    "added_tokens": [{"id": 4, "content": "<e>", "special": true, "normalized": true, "lstrip": false, "rstrip": false,
                      "single_word": false}],
    "normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "bbb"},
    "model": {"type": "BPE", "vocab": {"b": 0, "<": 1, "e": 2, ">": 3}, "merges": []}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("a<e>a<e>"), ElementsAre(0, 0, 0, 4, 0, 0, 0, 4));
  const std::vector<TextRange> first = {{0, 4}}, second = {{4, 8}};
  EXPECT_THAT(*(*tokenizer)->Encode("a<e>a<e>", {.plain_parts = first}), ElementsAre(0, 0, 0, 1, 2, 3, 0, 0, 0, 4));
  EXPECT_THAT(*(*tokenizer)->Encode("a<e>a<e>", {.plain_parts = second}), ElementsAre(0, 0, 0, 4, 0, 0, 0, 1, 2, 3));
}

// Nine steps that each make a text ten times as long would need gigabytes for four letters.
TEST(EncodeTest, NormalizedGrowthIsLimited) {
  const auto with_steps = [](int count) {
    std::string steps;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&steps, i == 0 ? "" : ",",
                      R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"})");
    }
    return *Tokenizer::FromJson(absl::StrCat(R"({"normalizer": {"type": "Sequence", "normalizers": [)", steps,
                                             R"(]}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})"));
  };
  EXPECT_EQ((*with_steps(1)->Encode("aaaa")).size(), 40u);
  EXPECT_EQ((*with_steps(2)->Encode("aaaa")).size(), 400u);
  const auto bomb = with_steps(9)->Encode("aaaa");
  EXPECT_EQ(bomb.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bomb.status().message(), Message("512 bytes", 64, 256));
}

// The end of each long text is an error of its own, which is reported only where the whole text is encoded.
TEST(EncodeTest, NumberOfIdsIsLimitedWhileTheyAreMade) {
  const auto by_words = *Tokenizer::FromJson(R"({"model": {"type": "Unigram", "vocab": [["a", -1]]},
      "pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": false}})");
  const auto by_added_tokens = *Tokenizer::FromJson(R"({"model": {"type": "Unigram", "vocab": [["a", -1]]},
      "added_tokens": [{"id": 1, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false,
                        "normalized": false, "special": false}]})");
  const std::tuple<const Tokenizer*, std::string, std::string> cases[] = {{by_words.get(), "a", "\u00e9"},
                                                                          {by_added_tokens.get(), "<x>", "\u00e9"}};
  constexpr int kLimit = 10;
  for (const auto& [tokenizer, piece, bad_end] : cases) {
    for (const int count : {kLimit - 1, kLimit, kLimit + 1}) {
      std::string text;
      for (int i = 0; i < count; ++i) text += piece;
      const auto ids = tokenizer->Encode(text, {.ids_max = kLimit});
      EXPECT_EQ(ids.status().code(), count > kLimit ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
      EXPECT_EQ(tokenizer->Encode(text + bad_end, {.ids_max = kLimit}).status().code(),
                count > kLimit ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(std::ssize(*tokenizer->Encode(text)), count) << "0 is no limit";
    }
  }
}

TEST(EncodeTest, NormalizedBytesOfALimitedNumberOfIds) {
  const auto tokenizer = *Tokenizer::FromJson(R"({"model": {"type": "Unigram", "vocab": [["a", -1]]},
      "normalizer": {"type": "Replace", "pattern": {"String": "b"}, "content": "\u00e9\u00e9"}})");
  const auto code = [&](const std::string& text) { return tokenizer->Encode(text, {.ids_max = 2}).status().code(); };
  EXPECT_EQ(code("bb"), absl::StatusCode::kInvalidArgument) << "8 bytes: encoded, and there is no token for them";
  EXPECT_EQ(code("bbb"), absl::StatusCode::kResourceExhausted) << "12 bytes";
}

TEST(DecodeTest, IdsWithoutATokenAreAnError) {
  const int32_t beyond = Shipped()->vocab_size();
  EXPECT_EQ(Shipped()->IdToToken(beyond), std::nullopt);
  EXPECT_NE(Shipped()->IdToToken(beyond - 1), std::nullopt);
  for (int32_t id : {beyond, -1, INT32_MAX}) {
    const auto text = Shipped()->Decode({5, id});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(text.status().message(), Message("token 1", id));
    EXPECT_EQ(*Shipped()->Decode({5, id}, {.ignore_unknown_ids = true}), *Shipped()->Decode({5}));
  }
}

// Left behind by training and calibration; transformers resets both at each call.
TEST(TokenizerTest, TruncationAndPaddingAreIgnoredWithANote) {
  const std::string rest = R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";
  for (const char* key : {"truncation", "padding"}) {
    ASSIGN_OR_FAIL(const auto made, Tokenizer::FromJson(absl::StrCat("{\"", key, "\": {\"max_length\": 1}, ", rest)));
    EXPECT_EQ(*made->Encode("abab"), (std::vector<int32_t>{0, 1, 0, 1}));
    ASSERT_EQ(made->notes().size(), 1u);
    EXPECT_THAT(made->notes()[0], testing::HasSubstr(absl::StrCat("\"", key, "\" of tokenizer.json is ignored")));
  }
  EXPECT_TRUE((*Tokenizer::FromJson(absl::StrCat("{\"truncation\": null, ", rest)))->notes().empty());
}

// Beside a tokenizer in another format, which is not read.
TEST(TokenizerTest, OtherFormatsAreNamed) {
  const testing_support::TemporaryDirectory directory;
  EXPECT_EQ(Tokenizer::OtherFormatHint(directory.path()), "");
  testing_support::WriteFile(directory.File("tokenizer.model"), "x");
  EXPECT_THAT(Tokenizer::Load(directory.path()).status(),
              IsError(absl::StatusCode::kNotFound, Message("tokenizer.model", "tokenizer.json")));
}

TEST(TokenizerTest, HashIsOfTheFile) {
  EXPECT_EQ(Shipped()->sha256().size(), 64u);
  const std::string json = R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  EXPECT_EQ((*Tokenizer::FromJson(json))->sha256(), Sha256Hex(json));
}

TEST(ByteLevelTest, IsABijection) {
  std::string all, spelled;
  for (int byte = 0; byte < 256; ++byte) all.push_back(byte);
  AppendByteLevel(all, spelled);
  EXPECT_EQ(FromByteLevel(spelled), all);
  EXPECT_EQ(ByteToCharacter(' '), 0x120u);
  EXPECT_EQ(FromByteLevel("a b"), std::nullopt);
}

// Merges by definition: the listed pair of lowest rank, leftmost first, one at a time.
std::vector<std::string> MergeByDefinition(std::vector<std::string> symbols,
                                           const std::vector<std::pair<std::string, std::string>>& merges) {
  for (bool merged = true; merged;) {
    merged = false;
    for (size_t rank = 0; rank < merges.size() && !merged; ++rank) {
      for (size_t i = 0; i + 1 < symbols.size() && !merged; ++i) {
        if (symbols[i] != merges[rank].first || symbols[i + 1] != merges[rank].second) continue;
        symbols[i] += symbols[i + 1];
        symbols.erase(symbols.begin() + i + 1);
        merged = true;
      }
    }
  }
  return symbols;
}

// Random vocabularies, some with merges in an order that training never produces, and word lengths around the threshold
// between the two algorithms (32 characters).
TEST(BpeTest, ShortAndLongWordsFollowTheDefinition) {
  Random random(3);
  int long_count = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Json vocab = Json::object();
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (const std::string& token : tokens) vocab[token] = vocab.size();
    while (merges.size() < 25) {
      const std::string& left = tokens[random.Below(tokens.size())];
      const std::string& right = tokens[random.Below(tokens.size())];
      if (vocab.contains(left + right)) continue;
      merges.emplace_back(left, right);
      vocab[left + right] = vocab.size();
      tokens.push_back(left + right);
    }
    if (trial % 2 == 1) std::swap(merges[random.Below(25)], merges[random.Below(25)]);
    Json model = {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}};
    for (const auto& [left, right] : merges) model["merges"].push_back({left, right});
    ASSIGN_OR_FAIL(const auto bpe, Bpe::FromJson(model, /*words_are_bytes=*/false));
    const Vocabulary& ids = bpe->vocabulary();
    for (int length : {1, 2, 3, 31, 32, 33, 34, 120}) {
      std::string word;
      for (int i = 0; i < length; ++i) word.push_back('a' + random.Below(trial % 3 + 1));
      std::vector<std::string> symbols;
      for (char c : word) symbols.emplace_back(1, c);
      std::vector<int32_t> wanted, got;
      for (const std::string& symbol : MergeByDefinition(symbols, merges)) wanted.push_back(*ids.Find(symbol));
      WordCache cache;
      ASSERT_TRUE(bpe->Encode(word, cache, got).ok());
      ASSERT_EQ(got, wanted) << word;
      long_count += length > 32;
    }
  }
  EXPECT_GT(long_count, 100);
}

// 32 times the length in less than 256 times the CPU time: a quadratic algorithm needs 1,024, which leaves a margin for
// a busy machine. Words that split into short pieces and a word that does not.
TEST(BpeTest, TimeIsNotQuadraticInWordLength) {
  auto seconds = [&](size_t size, uint32_t alphabet_size) {
    Random random(1);
    std::string word;
    while (word.size() < size) word.push_back('a' + random.Below(alphabet_size));
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      timespec start, end;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
      EXPECT_TRUE(Shipped()->Encode(word).ok());
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      best = std::min(best, static_cast<double>(end.tv_sec - start.tv_sec) + 1e-9 * (end.tv_nsec - start.tv_nsec));
    }
    return best;
  };
  for (uint32_t alphabet_size : {1, 26}) {
    EXPECT_LT(seconds(640'000, alphabet_size) / seconds(20'000, alphabet_size), 256.0);
  }
}

// The best token sequence and its score, by enumeration of all segmentations.
std::pair<double, std::vector<int32_t>> BestByDefinition(const std::string& word,
                                                         const std::vector<std::pair<std::string, double>>& vocab) {
  if (word.empty()) return {0, {}};
  std::pair<double, std::vector<int32_t>> best = {-1e300, {}};
  for (size_t id = 0; id < vocab.size(); ++id) {
    const auto& [token, score] = vocab[id];
    if (word.substr(0, token.size()) != token) continue;
    auto rest = BestByDefinition(word.substr(token.size()), vocab);
    if (rest.first + score <= best.first) continue;
    rest.second.insert(rest.second.begin(), id);
    best = {rest.first + score, rest.second};
  }
  return best;
}

// Scores of 20 random bits: with this seed no two segmentations tie.
TEST(UnigramTest, FindsTheBestSegmentation) {
  Random random(5);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::pair<std::string, double>> vocab = {{"a", -1}, {"b", -2}};
    while (vocab.size() < 12) {
      std::string token;
      for (int i = random.Below(4) + 1; i >= 0; --i) token.push_back('a' + random.Below(2));
      if (std::any_of(vocab.begin(), vocab.end(), [&](const auto& entry) { return entry.first == token; })) continue;
      vocab.emplace_back(token, -static_cast<double>(random.Below(1 << 20)) / (1 << 18));
    }
    Json model = {{"type", "Unigram"}, {"vocab", Json::array()}};
    for (const auto& [token, score] : vocab) model["vocab"].push_back(Json::array({token, score}));
    ASSIGN_OR_FAIL(const auto made, MakeSubwordModel(model, /*words_are_bytes=*/false));
    std::string word;
    for (int i = 0; i < 9; ++i) word.push_back('a' + random.Below(2));
    WordCache cache;
    std::vector<int32_t> got;
    ASSERT_TRUE(made->Encode(word, cache, got).ok());
    EXPECT_EQ(got, BestByDefinition(word, vocab).second) << word;
  }
}

TEST(UnigramTest, WithoutUnknownTokenACharacterCanBeAnError) {
  const auto tokenizer = *Tokenizer::FromJson(R"({"model": {"type": "Unigram", "vocab": [["a", -1]]}})");
  EXPECT_THAT(*tokenizer->Encode("aa"), ElementsAre(0, 0));
  const auto status = tokenizer->Encode("a\u00e9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("U+00E9"));
}

// The prefix space, in the newer and the older spelling; only "first" depends on the position of the text.
TEST(MetaspaceTest, PrependsSpaces) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"("prepend_scheme": "always")", "a b", "_a _b"},
      {R"("prepend_scheme": "never")", "a b", "a _b"},
      {R"("add_prefix_space": true, "str_rep": "_")", "a", "_a"},
      {R"("add_prefix_space": false)", "a b", "a _b"},
      {R"("prepend_scheme": "first")", "a<s>a", "_a <s> a"},
      {R"("prepend_scheme": "always")", "a<s>a", "_a <s> _a"},
      {R"("prepend_scheme": "first")", "<s>a", "<s> a"},
      {R"("prepend_scheme": "always")", " a  b", "_a _ _b"},
      {R"("prepend_scheme": "always", "split": false)", "a b", "_a_b"},
  };
  for (const auto& [options, text, wanted] : cases) {
    const auto made = Tokenizer::FromJson(absl::StrCat(
        R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", )", options, R"(}, "model": {"type": "WordLevel",
           "unk_token": "?", "vocab": {"?": 0, "_a": 1, "_b": 2, "_": 3, "a": 4, "_a_b": 5}}, "added_tokens": [{"id": 6,
           "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}]})"));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(*(*made)->Decode(*(*made)->Encode(text)), wanted) << options;
  }
}

// The scanners against PCRE2 on random texts of characters whose classes have not changed for many Unicode releases.
TEST(WordScannerTest, EqualsItsPattern) {
  const char* patterns[] = {
      R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re",
      R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
      R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
  };
  const char* pieces[] = {" ", "  ", "\n",     "\r",      "\t",     "'",      "'s",     "'LL",    "'\u017F",
                          "a", "Z",  "\u00E9", "e\u0301", "\u4E2D", "1",      "23",     "\u00BD", "\u0663",
                          "-", "!!", "_",      "\u00A0",  "\u0085", "\u180E", "\u2028", "\u200D", "\U0001F600"};
  for (const char* pattern : patterns) {
    const WordScanner scanner = FindWordScanner(pattern);
    ASSERT_NE(scanner, nullptr);
    const auto regex = *Regex::Compile(pattern);
    Random random(7);
    for (int trial = 0; trial < 3000; ++trial) {
      std::string text;
      for (int i = random.Below(14); i >= 0; --i) text += pieces[random.Below(std::size(pieces))];
      std::vector<absl::string_view> scanned, matched;
      const absl::string_view all = text;
      for (size_t at = 0; at < all.size(); at += scanned.back().size()) {
        scanned.push_back(all.substr(at, scanner(all.substr(at))));
        ASSERT_FALSE(scanned.back().empty());
      }
      ASSIGN_OR_FAIL(const auto found, regex->FindAll(text));
      for (const TextRange& range : found) matched.push_back(all.substr(range.begin, range.end - range.begin));
      ASSERT_EQ(scanned, matched) << text;
    }
  }
  EXPECT_EQ(FindWordScanner("a+"), nullptr);
}

// \\s and \\w as in the `tokenizers` library's engine, where PCRE2 differs.
TEST(RegexTest, ClassesMatchTheLibrary) {
  const std::tuple<const char*, const char*, size_t> cases[] = {
      {R"(\s)", " \u0085\u180E\u2028", 3}, {R"(\S)", " \u0085\u180E\u2028", 1}, {R"(\w)", "a_1\u00BD\u0301-", 5},
      {R"(\W)", "a_1\u00BD\u0301-", 1},    {R"([\s-])", " -\u180E", 2},         {R"([^\s\w])", " a\u00BD-\u180E", 2},
  };
  for (const auto& [pattern, text, count] : cases) {
    const auto regex = *Regex::Compile(pattern);
    EXPECT_EQ(regex->FindAll(text)->size(), count) << pattern;
  }
}

// Characters of Unicode 15 to 16, which Debian's PCRE2 lacks, and line anchors as in the library's engine.
TEST(RegexTest, NewerCharactersAndLineAnchors) {
  const std::tuple<const char*, const char*, size_t> cases[] = {
      {R"(\p{Lu})", "A\U00010D50 a", 2},
      {R"(\p{L}+)", "a\U00010D50\U0001E4D0b", 1},
      {R"(\P{L})", "a\U00010D50-", 1},
      {R"([^\p{L}])", "\U00010D50-", 1},
      {R"(\p{^L})", "\U00010D50-", 1},
      {R"(\d)", "1\U00011F50", 2},
      {R"(\p{Han})", "\U0002EBF0a", 1},
      {R"(\h)", "f \t0", 2},
      {R"(a$)", "a\na", 2},
      {R"(^a)", "a\na", 2},
      {R"([[:alpha:]-])", "a-", 2},
      {R"([]a])", "]a", 2},
  };
  for (const auto& [pattern, text, count] : cases) {
    ASSIGN_OR_FAIL(const auto regex, Regex::Compile(pattern));
    EXPECT_EQ(regex->FindAll(text)->size(), count) << pattern;
  }
}

// Sets inside brackets and their intersection: matches of the library (`Split` with `invert`), joined by |.
TEST(RegexTest, SetsInsideBracketsMatchTheLibrary) {
  constexpr char kText[] = "aB1_- [x]^&é中文\n.,!?… 中a z";
  const std::pair<const char*, const char*> cases[] = {
      {"[a[b]]", "a|a"},
      {"[\\p{L}&&[^a]]", "B|x|é|中|文|中|z"},
      {"[\\p{L}&&[^\\p{Han}]]+", "aB|x|é|a|z"},
      {" ?[^(\\s|[.,!?…。，、।۔،])]+", "aB1_-| [x]^&é中文| 中a| z"},
      {"[^\\p{L}&&[^\\p{Han}]]", "1|_|-| |[|]|^|&|中|文|\n|.|,|!|?|…| |中| "},
      {"[a-c[x-z]1]", "a|1|x|a|z"},
      {"[a[^\\s\\p{L}]]", "a|1|_|-|[|]|^|&|.|,|!|?|…|a"},
      {"[^a[^\\s\\p{L}]]", "B| |x|é|中|文|\n| |中| |z"},
      {"[\\p{L}&&\\p{Ll}&&[^a]]", "x|é|z"},
      {"[a-z&&[^x-z]]", "a|a"},
      {"[^\\r\\n\\p{L}\\p{N}]?[\\p{L}&&[^\\p{Han}]]+", "aB|[x|&é|a| z"},
      {"[[a]-z]", "a|-|a|z"},
      {"[[:alpha:]&&[^a]]", "B|x|é|中|文|中|z"},
      {"[a\\[]", "a|[|a"},
      {"[&a]", "a|&|a"},
      {"[]a]", "a|]|a"},
      {"[^]a]", "B|1|_|-| |[|x|^|&|é|中|文|\n|.|,|!|?|…| |中| |z"},
      {"[\\S&&[^a]]", "B|1|_|-|[|x|]|^|&|é|中|文|.|,|!|?|…|中|z"},
  };
  for (const auto& [pattern, wanted] : cases) {
    ASSIGN_OR_FAIL(const auto regex, Regex::Compile(pattern));
    std::string found;
    const std::vector<TextRange> ranges = *regex->FindAll(kText);
    for (const TextRange& range : ranges) {
      absl::StrAppend(&found, found.empty() ? "" : "|",
                      absl::string_view(kText).substr(range.begin, range.end - range.begin));
    }
    EXPECT_EQ(found, wanted) << pattern;
  }
}

TEST(RegexTest, RejectsUnsupportedSyntax) {
  for (const char* pattern : {R"([\p{L}&&])", R"([&&a])", R"([a&&^b])", R"([a[b])",
                              "[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]", R"(\p{N}{1,3}+)", R"(\p{Nonsense})"}) {
    EXPECT_THAT(Regex::Compile(pattern).status().message(), Message()) << pattern;
  }
}

// Spaces stripped after one token are not stripped again before the next.
TEST(AddedTokensTest, SpacesAreStrippedOnce) {
  const auto tokenizer = *Tokenizer::FromJson(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
      "added_tokens": [{"id": 1, "content": "  ", "single_word": false, "lstrip": true, "rstrip": true,
                        "normalized": false, "special": false}]})");
  EXPECT_THAT(*tokenizer->Encode("a    a"), ElementsAre(0, 1, 0));
  EXPECT_THAT(*tokenizer->Encode("a" + std::string(3'000'000, ' ')),
              ElementsAre(0, 1));  // a quadratic algorithm would take hours
}

TEST(RegexTest, BacktrackingLimitIsAnError) {
  const auto regex = *Regex::Compile("(a+)+$");
  const auto found = regex->FindAll(std::string(5000, 'a') + "b");
  EXPECT_TRUE(found.ok() || found.status().code() == absl::StatusCode::kResourceExhausted);
  const auto empty = *Regex::Compile("x*");
  EXPECT_EQ(empty->FindAll("a\u00E9xxb")->size(), 1u);
}

}  // namespace
}  // namespace varifocal
