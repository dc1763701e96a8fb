#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kDepthMax = 256;  // deeper than any real file; prevents stack overflow in destructors

std::string Key(absl::string_view key) { return std::string(key); }

absl::Status WrongType(absl::string_view key, absl::string_view wanted, const Json& value) {
  return InvalidArgument("\"", std::string(key), "\" must be ", std::string(wanted), ", not ", JsonKind(value));
}

const Json* FindValue(const Json& object, absl::string_view key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(Key(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

template <typename T>
absl::StatusOr<T> Require(absl::StatusOr<std::optional<T>> found, absl::string_view key) {
  if (!found.ok()) return found.status();
  if (!found->has_value()) return InvalidArgument("\"", std::string(key), "\" is missing");
  return std::move(**found);
}

// The digits of a number without its sign, point, exponent, and the zeros at either end.
std::string Digits(absl::string_view number) {
  std::string digits;
  for (char c : number.substr(0, number.find_first_of("eE"))) {
    if (absl::ascii_isdigit(c) && (c != '0' || !digits.empty())) digits += c;
  }
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return digits;
}

// Where the character begins that the byte at `at` breaks off: there, or up to 3 bytes before.
size_t BrokenCharacter(absl::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && at - begin < 2 && (text[begin - 1] & 0xC0) == 0x80) --begin;
  const unsigned lead = begin > 0 ? static_cast<unsigned char>(text[begin - 1]) : 0;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  return at - begin + 1 < length ? begin - 1 : at;
}

// Of the byte at `at`: editors show the lines of a file; the rows of a JSON Lines file have one each.
std::string NotJsonAt(absl::string_view text, size_t at) {
  at = std::min(at, text.size());
  if (!absl::StrContains(text.substr(0, at), '\n')) return absl::StrCat("not JSON at byte ", at + 1);
  const absl::string_view before = text.substr(0, at);
  return absl::StrCat("not JSON at line ", std::count(before.begin(), before.end(), '\n') + 1, ", byte ",
                      at - before.rfind('\n'));
}

// Builds the tree while nlohmann's lexer reads. nlohmann's own builder silently keeps the last of two equal keys; here
// the result of the insertion detects duplicates at no cost.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(absl::string_view text, Json& root, bool keeps_digits)
      : text_(text), root_(root), keeps_digits_(keeps_digits) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& written) override {
    const bool is_whole = written.find_first_of(".eE") == string_t::npos;
    const bool is_long = is_whole || Digits(written) != Digits(Json(value).dump());
    return is_long && keeps_digits_ ? Put(written) : Put(value);
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& key) override {
    auto [found, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(key));
    slot_ = &found->second;
    if (!is_new) problem_ = absl::StrCat("duplicate key \"", found->first, "\"");
    return is_new;
  }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    if (absl::StrContains(error.what(), "ill-formed UTF-8")) {  // `byte` is the last one that was read, from 1
      problem_ = absl::StrCat(NotJsonAt(text_, BrokenCharacter(text_, byte - 1)),
                              ": it is not UTF-8, no character begins there");
      return false;
    }
    const bool is_syntax = dynamic_cast<const Json::parse_error*>(&error) != nullptr;
    problem_ = is_syntax ? NotJsonAt(text_, byte - 1) : "not JSON: a number is out of range";
    return false;
  }

 private:
  template <typename Value>
  Json* Place(Value&& value) {
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    if (open_.back()->is_object()) return &(*slot_ = std::forward<Value>(value));
    auto& list = open_.back()->get_ref<Json::array_t&>();
    return &list.emplace_back(std::forward<Value>(value));
  }
  template <typename Value>
  bool Put(Value&& value) {
    Place(std::forward<Value>(value));
    return true;
  }
  bool Open(Json value) {
    if (open_.size() >= kDepthMax) {
      problem_ = absl::StrCat("nested deeper than ", kDepthMax, " levels");
      return false;
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  const absl::string_view text_;
  Json& root_;
  const bool keeps_digits_;
  std::vector<Json*> open_;  // unfinished objects and lists; an element is not moved until it is finished
  Json* slot_ = nullptr;     // of the key just read
  std::string problem_;
};

bool AllFinite(const Json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  if (value.is_structured()) {
    for (const Json& item : value) {
      if (!AllFinite(item)) return false;
    }
  }
  return true;
}

absl::StatusOr<Json> Parse(absl::string_view text, bool keeps_digits) {
  // nlohmann's lexer takes it for the end of the text, and what follows would be ignored.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(NotJsonAt(text, nul));
  }
  Json root;
  TreeBuilder builder(text, root, keeps_digits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  if (!builder.problem().empty()) return absl::InvalidArgumentError(builder.problem());
  return root;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) { return Parse(text, /*keeps_digits=*/false); }
absl::StatusOr<Json> ParseJsonKeepingDigits(absl::string_view text) { return Parse(text, /*keeps_digits=*/true); }

absl::string_view JsonKind(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return "a text";
  if (value.is_boolean()) return "a truth value";
  return value.is_null() ? "null" : "a number";
}

absl::StatusOr<std::string> DumpJson(const Json& value) {
  if (!AllFinite(value)) return InvalidArgument("a number is not finite, which JSON cannot express");
  try {
    return value.dump();
  } catch (const Json::exception&) {
    return InvalidArgument("a string is not valid UTF-8, which JSON requires");
  }
}

namespace {

std::string Shortened(const Json& value) {
  constexpr size_t kBytesMax = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);  // ASCII
  if (text.size() > kBytesMax) text = absl::StrCat(text.substr(0, kBytesMax), "..");
  return text;
}

std::optional<JsonDifference> FirstDifferenceAt(const std::string& place, const Json& before, const Json& after) {
  if (before == after) return std::nullopt;
  if (before.is_object() && after.is_object()) {
    for (const Json* side : {&before, &after}) {
      for (const auto& [key, unused] : side->items()) {
        const std::string below = absl::StrCat(place, place.empty() ? "" : ".", key);
        const Json& a = before.contains(key) ? before[key] : Json();
        const Json& b = after.contains(key) ? after[key] : Json();
        if (auto found = FirstDifferenceAt(below, a, b)) return found;
      }
    }
  }
  if (before.is_array() && after.is_array() && before.size() == after.size()) {
    for (size_t i = 0; i < before.size(); ++i) {
      if (auto found = FirstDifferenceAt(absl::StrCat(place, "[", i, "]"), before[i], after[i])) return found;
    }
  }
  return JsonDifference{place, Shortened(before), Shortened(after)};
}

}  // namespace

std::optional<JsonDifference> FirstDifference(const Json& before, const Json& after) {
  return FirstDifferenceAt("", before, after);
}

std::optional<JsonDifference> FirstTextDifference(absl::string_view before, absl::string_view after) {
  return FirstDifference(ParseJson(before).value_or(Json()), ParseJson(after).value_or(Json()));
}

absl::StatusOr<std::optional<std::string>> FindString(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(key, "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<std::optional<int64_t>> FindInt(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) return WrongType(key, "an integer", *value);
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) {
    return InvalidArgument("\"", std::string(key), "\" is ", value->get<uint64_t>(), ", above the limit ", INT64_MAX);
  }
  return value->get<int64_t>();
}

absl::StatusOr<std::optional<double>> FindDouble(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return WrongType(key, "a number", *value);
  return value->get<double>();
}

absl::StatusOr<std::optional<bool>> FindBool(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return WrongType(key, "true or false", *value);
  return value->get<bool>();
}

absl::StatusOr<std::string> GetString(const Json& object, absl::string_view key) {
  return Require(FindString(object, key), key);
}
absl::StatusOr<int64_t> GetInt(const Json& object, absl::string_view key) { return Require(FindInt(object, key), key); }
absl::StatusOr<double> GetDouble(const Json& object, absl::string_view key) {
  return Require(FindDouble(object, key), key);
}
absl::StatusOr<bool> GetBool(const Json& object, absl::string_view key) { return Require(FindBool(object, key), key); }

}  // namespace varifocal
