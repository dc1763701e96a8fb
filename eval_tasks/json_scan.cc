#include "eval_tasks/json_scan.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal {
namespace {

constexpr size_t kReadBytes = 1 << 20;

bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Scans JSON text for the end of a value that begins with a bracket.
class Nesting {
 public:
  // True when `c` closes the outermost bracket.
  bool Take(char c) {
    if (in_text_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_text_ = false;
      }
      return false;
    }
    if (c == '"') in_text_ = true;
    if (c == '{' || c == '[') ++depth_;
    return (c == '}' || c == ']') && --depth_ == 0;
  }
  int depth() const { return depth_; }

 private:
  int depth_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
};

// Finds the start of the list in one field of an object.
class ListSeeker {
 public:
  explicit ListSeeker(absl::string_view field) : field_(field) {}

  // True when `c` opens the list.
  bool Take(char c) {
    if (in_text_) {
      text_ += c;
      const bool closes = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      if (closes) in_text_ = false;
      return false;
    }
    if (IsJsonSpace(c)) return false;
    if (c == '[' && depth_ == 1 && is_wanted_) return true;
    if (c == '"') {
      in_text_ = true;
      text_.clear();
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    is_wanted_ = c == ':' && depth_ == 1 && absl::StripSuffix(text_, "\"") == field_;
    return false;
  }

 private:
  const absl::string_view field_;
  std::string text_;  // the last string, with its closing quote
  int depth_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
  bool is_wanted_ = false;
};

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Error for first bytes that are not JSON; empty when they may be.
std::string NotJson(absl::string_view bytes, bool is_object) {
  if (std::string why = WhyNotText(bytes); !why.empty()) return why;
  const size_t at = bytes.find_first_not_of(" \t\r\n", absl::StartsWith(bytes, kByteOrderMark) ? 3 : 0);
  if (at == absl::string_view::npos) return "";
  if (is_object) return bytes[at] == '{' ? "" : "is not a JSON object";
  return bytes[at] == '{' || bytes[at] == '[' ? "" : "row 1: is not a JSON object";
}

// End of the value that begins at `at`; npos when it does not end.
size_t ValueEnd(absl::string_view text, size_t at) {
  if (text[at] == '{' || text[at] == '[') {
    Nesting nesting;
    for (size_t i = at; i < text.size(); ++i) {
      if (nesting.Take(text[i])) return i + 1;
    }
    return absl::string_view::npos;
  }
  if (text[at] == '"') {
    for (size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        return i + 1;
      }
    }
    return absl::string_view::npos;
  }
  while (at < text.size() && text[at] != ',' && text[at] != '}' && text[at] != ']' && !IsJsonSpace(text[at])) ++at;
  return at;
}

// Python writes non-JSON numbers as NaN, Infinity and -Infinity; they become null.
std::string WithNullForNotFinite(absl::string_view text) {
  constexpr absl::string_view kWords[] = {"NaN", "-Infinity", "Infinity"};
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const auto word = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](absl::string_view w) { return absl::StartsWith(text.substr(at), w); });
    size_t end = at + 1;
    if (word != std::end(kWords)) {
      plain += "null";
      at += word->size();
      continue;
    }
    if (text[at] == '"') end = std::min(ValueEnd(text, at), text.size());
    plain.append(text.data() + at, end - at);
    at = end;
  }
  return plain;
}

absl::StatusOr<Json> ParsePythonJson(absl::string_view text) {
  absl::StatusOr<Json> value = ParseJson(text);
  if (value.ok() || !(absl::StrContains(text, "NaN") || absl::StrContains(text, "Infinity"))) return value;
  absl::StatusOr<Json> finite = ParseJson(WithNullForNotFinite(text));
  return finite.ok() ? finite : value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonRowFile>> JsonRowFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(path, FileUse::kData));
  return std::unique_ptr<JsonRowFile>(new JsonRowFile(std::move(file)));
}

std::string JsonRowFile::PlaceOf(size_t index) const { return absl::StrCat(path(), ": row ", index + 1); }

namespace {

uint64_t DigestOf(absl::string_view text) {
  const Sha256Digest sha256 = Sha256(text);
  uint64_t digest = 0;
  std::memcpy(&digest, sha256.data(), sizeof(digest));
  return digest;
}

}  // namespace

absl::Status JsonRowFile::Visit(int64_t offset, absl::string_view text,
                                const std::function<absl::Status(int64_t, absl::string_view)>& visit) {
  const absl::string_view row = absl::StripAsciiWhitespace(text);
  if (row.empty()) return absl::OkStatus();
  const size_t index = places_.size();
  if (row[0] != '{') return InvalidArgument(PlaceOf(index), ": is not a JSON object");
  if (const size_t end = ValueEnd(row, 0); end != row.size()) {
    return InvalidArgument(PlaceOf(index), end == absl::string_view::npos ? ": is not a JSON object: it does not end"
                                                                          : ": has trailing data after its object");
  }
  places_.push_back({offset + (row.data() - text.data()), std::ssize(row), DigestOf(row)});
  const absl::Status status = visit(index + 1, row);
  return status.ok() ? status : Annotate(status, PlaceOf(index));
}

absl::Status JsonRowFile::Scan(const std::function<absl::Status(int64_t, absl::string_view)>& visit,
                               absl::string_view rows_field) {
  places_.clear();
  Sha256Stream hash;
  std::string pending;   // bytes from `begin` on that are not part of a row yet
  int64_t begin = 0;     // offset of pending[0]
  size_t looked_at = 0;  // of pending
  enum { kStart, kSeeking, kLines, kArray, kDone } state = kStart;
  ListSeeker seeker(rows_field);
  Nesting nesting;
  std::string chunk(kReadBytes, '\0');
  for (bool at_end = false; !at_end;) {
    ASSIGN_OR_RETURN(const size_t size, file_->ReadSomeAt(begin + std::ssize(pending), chunk.size(), chunk.data()));
    at_end = size == 0;
    const absl::string_view read(chunk.data(), size);
    hash.Update(read);
    if (begin == 0 && pending.empty()) {
      const std::string wrong = NotJson(read, !rows_field.empty());
      if (!wrong.empty()) return InvalidArgument(path(), ": ", wrong);
      if (absl::StartsWith(read, kByteOrderMark)) looked_at = kByteOrderMark.size();
    }
    pending.append(read.data(), read.size());
    size_t row_begin = looked_at > 0 && state == kStart ? looked_at : 0;
    for (; looked_at < pending.size(); ++looked_at) {
      const char c = pending[looked_at];
      if (state == kStart && !IsJsonSpace(c)) {
        state = !rows_field.empty() ? kSeeking : c == '[' ? kArray : kLines;
        if (state == kArray) {
          row_begin = looked_at + 1;
          continue;
        }
      }
      if (state == kStart || state == kLines) {
        if (c != '\n') continue;
      } else if (state == kSeeking || state == kDone) {
        if (state == kDone && rows_field.empty() && !IsJsonSpace(c)) {
          return InvalidArgument(path(), ": has trailing data after its list of ", places_.size(),
                                 Plural(std::ssize(places_), " row", " rows"));
        }
        if (state == kSeeking && seeker.Take(c)) state = kArray;
        row_begin = looked_at + 1;
        continue;
      } else if (nesting.depth() == 0 && (c == ',' || c == ']' || IsJsonSpace(c))) {
        if (c == ']') state = kDone;
        row_begin = looked_at + 1;
        continue;
      } else if (!nesting.Take(c)) {
        if (nesting.depth() > 0) continue;
        return InvalidArgument(PlaceOf(places_.size()), ": is not a JSON object");
      }
      RETURN_IF_ERROR(
          Visit(begin + row_begin, absl::string_view(pending).substr(row_begin, looked_at + 1 - row_begin), visit));
      row_begin = looked_at + 1;
    }
    if (at_end && (state == kStart || state == kLines)) {
      RETURN_IF_ERROR(Visit(begin + row_begin, absl::string_view(pending).substr(row_begin), visit));
    } else if (at_end && state == kSeeking) {
      return InvalidArgument(path(), ": has no list in the field \"", rows_field, "\"");
    } else if (at_end && nesting.depth() != 0) {
      return InvalidArgument(PlaceOf(places_.size()), ": the file ends inside it");
    } else if (at_end && state == kArray) {
      return InvalidArgument(path(), ": ends inside its list, after ", places_.size(),
                             Plural(std::ssize(places_), " row", " rows"));
    }
    pending.erase(0, row_begin);
    begin += row_begin;
    looked_at -= row_begin;
    if (std::ssize(pending) > kJsonRowBytesMax) {
      return InvalidArgument(PlaceOf(places_.size()), ": has more than ", kJsonRowBytesMax, " bytes");
    }
  }
  sha256_ = ToHex(hash.Finish());
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonRowFile::ReadText(size_t index) const {
  const RowPlace& place = places_[index];
  std::string text(place.size, '\0');
  const absl::Status read = file_->ReadAt(place.offset, text.size(), text.data());
  if (!read.ok()) return Annotate(read, PlaceOf(index));
  if (DigestOf(text) != place.digest) {
    return FailedPrecondition(PlaceOf(index), ": was changed since the file was opened; its content is not used");
  }
  return text;
}

absl::StatusOr<Json> JsonRowFile::Read(size_t index) const {
  ASSIGN_OR_RETURN(const std::string text, ReadText(index));
  absl::StatusOr<Json> row = ParsePythonJson(text);
  if (!row.ok()) return Annotate(row.status(), PlaceOf(index));
  if (!row->is_object()) return InvalidArgument(PlaceOf(index), ": is not a JSON object");
  return row;
}

namespace {

// The error of a field's text, whose offset is one of the field, as that of the whole row, where that has one.
absl::Status OfWholeRow(absl::string_view row, const absl::Status& of_field) {
  const absl::Status whole = ParsePythonJson(row).status();
  return whole.ok() ? of_field : whole;
}

}  // namespace

absl::StatusOr<Json> FieldsOf(absl::string_view text, absl::Span<const std::string> names,
                              std::vector<std::string>* all_names) {
  const absl::Status broken = InvalidArgument("is not a JSON object");
  Json fields = Json::object();
  size_t at = 0;
  auto skip_space = [&] {
    while (at < text.size() && IsJsonSpace(text[at])) ++at;
    return at < text.size();
  };
  if (!skip_space() || text[at++] != '{') return broken;
  if (skip_space() && text[at] == '}') return fields;
  for (;;) {
    if (!skip_space() || text[at] != '"') return broken;
    const size_t name_end = ValueEnd(text, at);
    if (name_end == absl::string_view::npos) return broken;
    const absl::StatusOr<Json> name = ParseJson(text.substr(at, name_end - at));
    if (!name.ok()) return OfWholeRow(text, name.status());
    at = name_end;
    if (!skip_space() || text[at++] != ':' || !skip_space()) return broken;
    const size_t end = ValueEnd(text, at);
    if (end == absl::string_view::npos || end == at) return broken;
    const std::string& field = name->get_ref<const std::string&>();
    if (std::find(names.begin(), names.end(), field) != names.end()) {
      if (fields.contains(field)) return InvalidArgument("duplicate field \"", field, "\"");
      absl::StatusOr<Json> value = ParsePythonJson(text.substr(at, end - at));
      if (!value.ok()) return OfWholeRow(text, value.status());
      fields[field] = *std::move(value);
    }
    if (all_names != nullptr) all_names->push_back(field);
    at = end;
    if (!skip_space()) return broken;
    if (text[at] == '}') {
      ++at;
      if (skip_space()) return InvalidArgument("has trailing data after its object");
      return fields;
    }
    if (text[at++] != ',') return broken;
  }
}

}  // namespace varifocal
