#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/alignment.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/decoders.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/post_processors.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/subword_models.h"
#include "tokenizer/token_changes.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

// The text, or its repaired copy.
absl::string_view Repair(absl::string_view text, const EncodeOptions& options, std::string& repaired,
                         std::vector<TextRange>& plain_parts) {
  plain_parts.assign(options.plain_parts.begin(), options.plain_parts.end());
  if (ValidUtf8Prefix(text) == text.size()) return text;
  const auto moved = [&](size_t at) {
    std::string before;
    AppendRepairedUtf8(text.substr(0, at), before);
    return before.size();
  };
  for (TextRange& part : plain_parts) part = {moved(part.begin), moved(part.end)};
  const int64_t count = AppendRepairedUtf8(text, repaired);
  if (options.invalid_utf8_count != nullptr) *options.invalid_utf8_count += count;
  return repaired;
}

absl::Status TooManyIds(size_t ids_max) {
  return ResourceExhausted("the text has more than ", ids_max, " tokens, the limit of this call");
}

// Where special tokens are text.
struct PlainText {
  bool everywhere = false;
  absl::string_view text;  // that the parts are of
  absl::Span<const TextRange> parts;

  bool Touches(size_t begin, size_t end) const {
    if (everywhere) return true;
    const auto part = std::upper_bound(parts.begin(), parts.end(), begin,
                                       [](size_t at, const TextRange& other) { return at < other.end; });
    return part != parts.end() && part->begin < end;
  }
  size_t PlaceOf(absl::string_view part) const { return part.data() - text.data(); }
};

}  // namespace

// State for computing offsets; not used when only ids are requested.
struct Tokenizer::Trace {
  absl::string_view text;  // all of it
  std::vector<TextRange> offsets;
  std::map<size_t, std::string> added_texts;  // index of an id -> the text of an added token, with its spaces

  size_t PlaceOf(absl::string_view part) const { return part.data() - text.data(); }
};

struct Tokenizer::Parts {
  // Word caches that are not in use. Each call takes one, so that lookups need no lock.
  class WordCachePool {
   public:
    std::unique_ptr<WordCache> Borrow() {
      MutexLock lock(mutex_);
      if (caches_.empty()) return std::make_unique<WordCache>();
      auto cache = std::move(caches_.back());
      caches_.pop_back();
      return cache;
    }
    void Return(std::unique_ptr<WordCache> cache) {
      MutexLock lock(mutex_);
      caches_.push_back(std::move(cache));
    }

   private:
    Mutex mutex_;
    std::vector<std::unique_ptr<WordCache>> caches_ VF_GUARDED_BY(mutex_);
  };

  std::unique_ptr<const SubwordModel> model;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  PostProcessor post_processor;
  Decoders decoders;
  AddedTokens added;
  bool splits_special_tokens = false;
  std::string sha256;
  std::vector<std::string> notes;
  int vocab_size = 0;
  WordCachePool caches;

  // Ids of a text without added tokens that are matched before normalization. `is_start`: no text precedes it.
  absl::Status EncodeStretch(absl::string_view text, bool is_start, const PlainText& plain, size_t ids_max,
                             WordCache& cache, std::vector<int32_t>& ids, Trace* trace) const {
    NormalizedText normalized{{}, is_start};
    const bool looks_for_plain = added.has_normalized() && !plain.everywhere && !plain.parts.empty();
    if (trace != nullptr || looks_for_plain) normalized.alignment = AlignToItself(text, plain.PlaceOf(text));
    if (!normalizers.empty()) {
      normalized.text = std::string(text);
      RETURN_IF_ERROR(Normalize(normalizers, normalized));
      text = normalized.text;
      if (text.size() / kBytesPerIdMax > ids_max) return TooManyIds(ids_max);
    }
    const TextRange* alignment = trace == nullptr ? nullptr : normalized.alignment->data();
    if (!added.has_normalized()) return EncodeWords(text, normalized.is_start, ids_max, cache, ids, alignment, trace);
    std::vector<AddedTokenCut> cuts;
    const auto is_plain = [&](size_t begin, size_t end) {
      if (!looks_for_plain) return plain.everywhere;
      return plain.Touches((*normalized.alignment)[begin].begin, (*normalized.alignment)[end - 1].end);
    };
    added.Cut(text, /*after_normalization=*/true, is_plain, cuts);
    for (const AddedTokenCut& cut : cuts) {
      const TextRange* of_cut = trace == nullptr ? nullptr : alignment + (cut.text.data() - text.data());
      if (cut.id.has_value()) {
        if (trace != nullptr) {
          trace->added_texts[ids.size()] = std::string(cut.text);
          trace->offsets.push_back({of_cut[0].begin, of_cut[cut.text.size() - 1].end});
        }
        ids.push_back(*cut.id);
      } else {
        const bool is_first = cut.text.data() == text.data();
        RETURN_IF_ERROR(EncodeWords(cut.text, is_first && normalized.is_start, ids_max, cache, ids, of_cut, trace));
      }
    }
    return absl::OkStatus();
  }

  // With a trace, `alignment` is that of the text's bytes.
  absl::Status EncodeWords(absl::string_view text, bool is_start, size_t ids_max, WordCache& cache,
                           std::vector<int32_t>& ids, const TextRange* alignment, Trace* trace) const {
    if (text.empty()) return absl::OkStatus();
    Words words;
    words.words.push_back(text);
    words.begins_at_start = is_start;
    if (trace != nullptr) words.alignments[text.data()] = Alignment(alignment, alignment + text.size());
    RETURN_IF_ERROR(PreTokenize(pre_tokenizers, words));
    for (absl::string_view word : words.words) {
      const size_t begin = ids.size();
      RETURN_IF_ERROR(model->Encode(word, cache, ids));
      if (ids.size() > ids_max) return TooManyIds(ids_max);
      if (trace != nullptr) TraceWord(word, words.AlignmentOf(word), absl::MakeConstSpan(ids).subspan(begin), *trace);
    }
    return absl::OkStatus();
  }

  void TraceWord(absl::string_view word, const TextRange* alignment, absl::Span<const int32_t> ids,
                 Trace& trace) const {
    std::string spelt;
    Alignment of_spelt;
    if (pre_tokenizers.words_are_bytes) {
      AppendByteLevel(word, spelt);
      of_spelt = AlignByteLevel(word, alignment);
      word = spelt;
      alignment = of_spelt.data();
    }
    std::vector<TextRange> ranges;
    model->FindRanges(word, ids, ranges);
    for (const TextRange& range : ranges) {
      const size_t begin = std::min(range.begin, word.size() - 1);
      const size_t end = std::clamp(range.end, begin + 1, word.size());
      trace.offsets.push_back({alignment[begin].begin, alignment[end - 1].end});
    }
  }

  // Offset trimming of a ByteLevel post-processor: counts the spaces at a token's ends and removes as many characters from
  // the token's range.
  void Trim(bool spares_first, absl::Span<const int32_t> ids, Trace& trace) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto added_text = trace.added_texts.find(i);
      const absl::string_view token =
          added_text == trace.added_texts.end() ? model->vocabulary().tokens()[ids[i]] : added_text->second;
      TextRange& range = trace.offsets[i];
      size_t leading = CountSpaces(token, /*from_end=*/false);
      size_t trailing = CountSpaces(token, /*from_end=*/true);
      if (leading == 1 && spares_first && (i == 0 || range.begin == 0)) leading = 0;
      for (; leading > 0 && range.begin < range.end; --leading) {
        uint32_t ignored = 0;
        range.begin += ReadValidUtf8(trace.text.data() + range.begin, &ignored);
      }
      if (CountCharacters(trace.text.substr(0, std::min(range.end, 4 * trailing))) < trailing) continue;
      for (; trailing > 0 && range.end > range.begin; --trailing) {
        do {
          --range.end;
        } while (range.end > range.begin && (trace.text[range.end] & 0xC0) == 0x80);
      }
    }
  }

  static size_t CountCharacters(absl::string_view text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }

  static size_t CountSpaces(absl::string_view token, bool from_end) {
    constexpr uint32_t kByteLevelSpace = 0x120;
    size_t count = 0, run = 0;
    for (size_t at = 0; at < token.size();) {
      uint32_t point = 0;
      at += ReadValidUtf8(token.data() + at, &point);
      const bool is_space = point == kByteLevelSpace || (UnicodeClasses()[point] & kSpace) != 0;
      if (!is_space && !from_end) return run;
      run = is_space ? run + 1 : 0;
      count = run;
    }
    return count;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::string Tokenizer::OtherFormatHint(const std::string& directory) {
  for (const char* name :
       {"vocab.json", "vocab.txt", "tokenizer.model", "tekken.json", "spiece.model", "tiktoken.model"}) {
    if (!FileExists(absl::StrCat(directory, "/", name), FileUse::kModel)) continue;
    return absl::StrCat("; ", name, " is not read, a conversion to tokenizer.json is needed");
  }
  return "";
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& directory_or_file,
                                                                 TokenizerRules rules) {
  const bool is_directory = IsDirectory(directory_or_file);
  const std::string path = is_directory ? directory_or_file + "/tokenizer.json" : directory_or_file;
  absl::StatusOr<std::string> bytes = ReadFile(path, kTokenizerFile);
  if (absl::IsNotFound(bytes.status())) return NotFound(bytes.status().message(), OtherFormatHint(directory_or_file));
  RETURN_IF_ERROR(bytes.status());  // with its reason
  SideFiles files;
  if (is_directory) {
    ASSIGN_OR_RETURN(files, ReadSideFiles(directory_or_file));
  }
  return Annotate(FromJson(*bytes, files, rules), path);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(absl::string_view text, const SideFiles& files,
                                                                     TokenizerRules rules) {
  ASSIGN_OR_RETURN(Json json, ParseJson(text));
  RETURN_IF_ERROR(CheckKeys(json, "tokenizer.json",
                            {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                             "post_processor", "decoder", "model"}));
  auto parts = std::make_unique<Parts>();
  for (const char* key : {"truncation", "padding"}) {
    if (json.contains(key) && !json[key].is_null()) {
      parts->notes.push_back(
          absl::StrCat("\"", key, "\" of tokenizer.json is ignored, as transformers resets it at each call"));
    }
  }
  const Json null;
  auto member = [&](const char* key) -> const Json& { return json.contains(key) ? json[key] : null; };
  ASSIGN_OR_RETURN(const Json* model, GetMember(json, "model"));
  ASSIGN_OR_RETURN(parts->pre_tokenizers, MakePreTokenizers(member("pre_tokenizer")));
  ASSIGN_OR_RETURN(parts->model, MakeSubwordModel(*model, parts->pre_tokenizers.words_are_bytes));
  const Vocabulary& vocabulary = parts->model->vocabulary();
  ASSIGN_OR_RETURN(parts->normalizers, MakeNormalizers(member("normalizer")));
  ASSIGN_OR_RETURN(parts->post_processor, MakePostProcessor(member("post_processor")));
  ASSIGN_OR_RETURN(parts->decoders, MakeDecoders(member("decoder")));
  ASSIGN_OR_RETURN(parts->added, AddedTokens::FromJson(member("added_tokens"), vocabulary, parts->normalizers));
  ASSIGN_OR_RETURN(const TokenChanges changes, ReadTokenChanges(files, json, vocabulary, parts->post_processor, rules));
  parts->sha256 = Sha256Hex(text);
  if (const std::string identity = changes.Identity(); !identity.empty()) {
    parts->sha256 = Sha256Hex(absl::StrCat(parts->sha256, "\n", identity));
    parts->notes.push_back("tokens differ from tokenizer.json alone, because of the files beside it");
  }
  if (changes.added_tokens.has_value()) {
    ASSIGN_OR_RETURN(parts->added, AddedTokens::FromJson(*changes.added_tokens, vocabulary, parts->normalizers));
  }
  if (changes.add_prefix_space.has_value()) {
    json["pre_tokenizer"]["add_prefix_space"] = *changes.add_prefix_space;
    ASSIGN_OR_RETURN(parts->pre_tokenizers, MakePreTokenizers(json["pre_tokenizer"]));
  }
  parts->post_processor.before = changes.before.value_or(parts->post_processor.before);
  parts->post_processor.behind = changes.behind.value_or(parts->post_processor.behind);
  parts->splits_special_tokens = changes.splits_special_tokens;
  parts->vocab_size = vocabulary.tokens().size();
  for (const AddedToken& token : parts->added.tokens()) parts->vocab_size = std::max(parts->vocab_size, token.id + 1);
  for (const auto* ids : {&parts->post_processor.before, &parts->post_processor.behind}) {
    for (int32_t id : *ids) {
      if (!vocabulary.has_id(id) && parts->added.Find(id) == nullptr) {
        return InvalidArgument("post_processor: no token has the id ", id);
      }
    }
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

// Appends the ids of `text`, which is UTF-8, without those of the post-processor.
absl::Status Tokenizer::EncodeInto(absl::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                   Trace* trace) const {
  std::vector<AddedTokenCut> cuts;
  const PlainText plain{options.special_tokens_as_text || parts_->splits_special_tokens, text, options.plain_parts};
  parts_->added.Cut(
      text, /*after_normalization=*/false, [&](size_t begin, size_t end) { return plain.Touches(begin, end); }, cuts);
  const size_t ids_max = options.ids_max == 0 ? SIZE_MAX : options.ids_max;
  auto cache = parts_->caches.Borrow();
  absl::Status status;
  for (const AddedTokenCut& cut : cuts) {
    if (cut.id.has_value()) {
      if (trace != nullptr) {
        trace->added_texts[ids.size()] = std::string(cut.text);
        trace->offsets.push_back({trace->PlaceOf(cut.text), trace->PlaceOf(cut.text) + cut.text.size()});
      }
      ids.push_back(*cut.id);
    } else {
      const bool is_start = cut.text.data() == text.data();
      status = parts_->EncodeStretch(cut.text, is_start, plain, ids_max, *cache, ids, trace);
    }
    if (status.ok() && ids.size() > ids_max) status = TooManyIds(ids_max);
    if (!status.ok()) break;
  }
  parts_->caches.Return(std::move(cache));
  return status;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  std::vector<TextRange> plain_parts;
  text = Repair(text, options, repaired, plain_parts);
  EncodeOptions of_repaired = options;
  of_repaired.plain_parts = plain_parts;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.add_special_tokens) ids = parts_->post_processor.before;
  RETURN_IF_ERROR(EncodeInto(text, of_repaired, ids, nullptr));
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->post_processor.behind.begin(), parts_->post_processor.behind.end());
  }
  return ids;
}

absl::StatusOr<EncodedText> Tokenizer::EncodeWithOffsets(absl::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  std::vector<TextRange> plain_parts;
  text = Repair(text, options, repaired, plain_parts);
  EncodeOptions of_repaired = options;
  of_repaired.plain_parts = plain_parts;
  EncodedText encoded;
  Trace trace;
  trace.text = text;
  RETURN_IF_ERROR(EncodeInto(text, of_repaired, encoded.ids, &trace));
  const PostProcessor& post_processor = parts_->post_processor;
  for (const bool spares_first : post_processor.trims) parts_->Trim(spares_first, encoded.ids, trace);
  encoded.offsets = std::move(trace.offsets);
  if (options.add_special_tokens) {
    const auto &before = post_processor.before, &behind = post_processor.behind;
    encoded.ids.insert(encoded.ids.begin(), before.begin(), before.end());
    encoded.offsets.insert(encoded.offsets.begin(), before.size(), TextRange{});
    encoded.ids.insert(encoded.ids.end(), behind.begin(), behind.end());
    encoded.offsets.resize(encoded.ids.size());
  }
  return encoded;
}

absl::StatusOr<int64_t> Tokenizer::CountTokens(absl::string_view text, const EncodeOptions& options) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text, options));
  return std::ssize(ids);
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    auto token = IdToToken(ids[i]);
    if (!token.has_value()) {
      if (options.ignore_unknown_ids) continue;
      return InvalidArgument("token ", i, " has the id ", ids[i], ", which no token has; the vocabulary ends at ",
                             vocab_size() - 1);
    }
    if (!options.keep_special_tokens && IsSpecial(ids[i])) continue;
    tokens.push_back(*std::move(token));
  }
  return DecodeTokens(parts_->decoders, std::move(tokens));
}

std::optional<int32_t> Tokenizer::TokenToId(absl::string_view token) const {
  const auto added = parts_->added.TokenToId(token);
  return added.has_value() ? added : parts_->model->vocabulary().Find(token);
}

std::optional<std::string> Tokenizer::IdToToken(int32_t id) const {
  if (const AddedToken* token = parts_->added.Find(id); token != nullptr) return token->pattern;
  const Vocabulary& vocabulary = parts_->model->vocabulary();
  if (!vocabulary.has_id(id)) return std::nullopt;
  return vocabulary.tokens()[id];
}

bool Tokenizer::IsSpecial(int32_t id) const {
  if (const AddedToken* token = parts_->added.Find(id); token != nullptr) {
    return parts_->added.IsSpecialContent(token->pattern);
  }
  const Vocabulary& vocabulary = parts_->model->vocabulary();
  return vocabulary.has_id(id) && parts_->added.IsSpecialContent(vocabulary.tokens()[id]);
}

int Tokenizer::vocab_size() const { return parts_->vocab_size; }

const std::string& Tokenizer::sha256() const { return parts_->sha256; }

const std::vector<std::string>& Tokenizer::notes() const { return parts_->notes; }

}  // namespace varifocal
