// varifocal groups: the tokens and word classes in a checkpoint's learned groups.
#include <algorithm>
#include <map>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/model_session.h"
#include "client/report/charts/stacked_bars.h"
#include "client/rows.h"
#include "client/token_groups.h"
#include "client/tokenizers.h"
#include "client/verb.h"
#include "eval_tasks/overrides.h"

namespace varifocal::client {
namespace {

constexpr int64_t kContextDefault =
    1024;  // if the checkpoint does not state the length at which its groups were trained
constexpr size_t kTokensShown = 6;

// One layer over all windows.
struct Layer {
  int64_t index = 0;
  int group_count = 0;
  int64_t visible_pair_count = 0, pair_count = 0, token_count = 0;
  std::vector<uint32_t> groups;
  LayerOfGroups described;

  double pairs_visible() const { return static_cast<double>(visible_pair_count) / pair_count; }
  double ShareOf(const TokenGroup& group) const { return static_cast<double>(group.token_count) / token_count; }
  double largest_group() const {
    double largest = 0;
    for (const TokenGroup& group : described.groups) largest = std::max(largest, ShareOf(group));
    return largest;
  }
};

std::string QuotedToken(const std::string& token) {
  return Json(token).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Groups : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    model_.AddTo(flags);
    flags.Add("file", &file_, "PATH", "the text, byte for byte; - is standard input").Required();
    flags.Add("layer", &layer_, "N", "only this layer, counted from 0").AtLeast(0).AtMost(1 << 20);
    flags.Add("context", &context_, "N", "tokens per window; default: the length at which the groups were trained")
        .AtLeast(1)
        .AtMost(1 << 20);
    flags.Add("windows", &window_count_, "N", "maximum number of windows, evenly spread over the text")
        .AtLeast(1)
        .AtMost(4096);
    model_.engine.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(file_));
    RETURN_IF_ERROR(model_.SetAttention(&request_));
    request_.set_per_token_groups(true);
    ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(model_, global));
    ASSIGN_OR_RETURN(const int64_t context, ReadSetting(*session));
    ASSIGN_OR_RETURN(const std::unique_ptr<TextCoder> coder,
                     OpenTextCoder(model_.model, model_.engine.tokenizer, global, console));
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids, coder->Encode(text, {.no_special_tokens = true}));
    if (ids.empty()) return InvalidArgument(file_, " is empty; it has no tokens.");
    std::vector<std::string> tokens;
    std::vector<WordClass> classes;
    for (const std::vector<int32_t>& window : Windows(ids, context)) {
      RETURN_IF_ERROR(RunWindow(*session, window));
      ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(*coder, window));
      const std::vector<WordClass> found = ClassifyTokens(texts);
      tokens.insert(tokens.end(), texts.begin(), texts.end());
      classes.insert(classes.end(), found.begin(), found.end());
    }
    for (auto& [index, layer] : layers_) {
      layer.token_count = tokens.size();
      layer.described = DescribeGroups(layer.groups, layer.group_count, tokens, classes);
    }
    if (global.format == "svg") {
      console.out << report::DrawStackedBars(FigureOf(classes));
      return ExitCode::kDone;
    }
    if (console.format == Format::kText) {
      PrintForPeople(console);
      return ExitCode::kDone;
    }
    return PrintRows(console);
  }

 private:
  // Reads the checkpoint's setting; the tokens of a window.
  absl::StatusOr<int64_t> ReadSetting(ModelSession& session) {
    v1::GetModelRequest request;
    request.set_name(session.model());
    ASSIGN_OR_RETURN(const v1::Model model,
                     Call(session.daemon().inference(), &v1::Inference::Stub::GetModel, request));
    const auto attention = ParseJson(model.attention_json());
    if (!attention.ok() || !attention->is_object() || !attention->contains("focus_attention")) {
      return FailedPrecondition(model_.model, " has no learned groups: its attention is ", model.attention_label(),
                                ".");
    }
    trained_ = setting_ = (*attention)["focus_attention"];
    for (const auto& [name, given] : request_.overrides()) {
      const OverrideInfo* info = FindOverride(name);
      if (info != nullptr && info->focus_setting != nullptr)
        setting_[info->focus_setting] = static_cast<int64_t>(given.values(0));
    }
    const Json trained = setting_.value("trained_context_length", Json(kContextDefault));
    const int64_t context = context_.value_or(std::min<int64_t>(trained.get<int64_t>(), model.context_length_max()));
    if (context > model.context_length_max()) {
      return InvalidArgument("--context is ", context, "; the model takes at most ", model.context_length_max(),
                             " tokens.");
    }
    return context;
  }

  // Evenly spread over the text; one shorter window where the text is shorter.
  std::vector<std::vector<int32_t>> Windows(const std::vector<int32_t>& ids, int64_t context) {
    const int64_t length = std::min(context, std::ssize(ids));
    const int64_t whole = std::ssize(ids) / length;
    const int64_t count = std::min(window_count_, whole);
    std::vector<std::vector<int32_t>> windows;
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = ids.begin() + i * whole / count * length;
      windows.emplace_back(begin, begin + length);
    }
    shown_windows_ = absl::StrCat(count, count == 1 ? " window of " : " windows of ", length, " tokens");
    return windows;
  }

  absl::Status RunWindow(ModelSession& session, const std::vector<int32_t>& window) {
    request_.set_model(session.model());
    request_.mutable_prompt_token_ids()->mutable_ids()->Assign(window.begin(), window.end());
    grpc::ClientContext context;  // no deadline: a long text on a slow machine may take minutes
    v1::ComputeLogLikelihoodsResponse response;
    RETURN_IF_ERROR(FromGrpc(session.daemon().inference().ComputeLogLikelihoods(&context, request_, &response)));
    if (response.layer_groups().empty()) {
      return FailedPrecondition("no groups were computed with k = ", setting_["top_k"].dump(),
                                " of K = ", setting_["group_count"].dump(),
                                ": two tokens always share one when more than half of the "
                                "groups are chosen, layers with a window of their own "
                                "are left out, and not every device has them.");
    }
    const int64_t length = window.size();
    bool is_known = false;
    for (const v1::LayerGroups& given : response.layer_groups()) {
      if (layer_.has_value() && given.layer() != *layer_) continue;
      is_known = true;
      Layer& layer = layers_[given.layer()];
      layer.index = given.layer();
      layer.group_count = given.group_count();
      layer.visible_pair_count += given.visible_pair_count();
      layer.pair_count += length * (length + 1) / 2;
      layer.groups.insert(layer.groups.end(), given.groups().begin(), given.groups().end());
    }
    if (is_known) return absl::OkStatus();
    std::vector<int32_t> known;
    for (const v1::LayerGroups& given : response.layer_groups()) known.push_back(given.layer());
    return NotFound("layer ", *layer_, " has no groups to show; those that have are ", absl::StrJoin(known, ", "), ".");
  }

  // The text of each token; a decoder may drop the space before the first word, so each is decoded behind another
  // token.
  absl::StatusOr<std::vector<std::string>> TextsOf(TextCoder& coder, const std::vector<int32_t>& window) {
    const int32_t first = window.front();
    ASSIGN_OR_RETURN(const std::string alone, coder.Decode({first}, /*keep_special_tokens=*/true));
    std::vector<std::string> texts;
    for (const int32_t id : window) {
      auto [known, is_new] = texts_.try_emplace(id);
      if (is_new) {
        ASSIGN_OR_RETURN(const std::string both, coder.Decode({first, id}, /*keep_special_tokens=*/true));
        known->second = both.substr(std::min(both.size(), alone.size()));
      }
      texts.push_back(known->second);
    }
    return texts;
  }

  std::string Heading() const {
    const auto shown = [](const Json& setting, const char* key) {
      const Json value = setting.value(key, Json());
      return value.is_string() ? value.get<std::string>() : value.is_null() ? "not stated" : value.dump();
    };
    const auto run = [&](const char* key) {
      const std::string value = shown(setting_, key), trained = shown(trained_, key);
      return value == trained ? value : absl::StrCat(value, " (trained: ", trained, ")");
    };
    return absl::StrCat("k = ", run("top_k"), " of K = ", run("group_count"), " groups, window ", run("window"),
                        ", bias ", run("bias"), ", regime ", run("regime"), ", trained at ",
                        run("trained_context_length"), "; ", shown_windows_);
  }

  static std::string LayerLine(const Layer& layer) {
    return absl::StrFormat("pairs visible %.1f %%, largest group %.1f %%, purity %.3f (shuffled %.3f)",
                           100 * layer.pairs_visible(), 100 * layer.largest_group(), layer.described.purity,
                           layer.described.shuffled_purity);
  }

  void PrintForPeople(Console& console) const {
    console.out << Heading() << "\n";
    for (const auto& [index, layer] : layers_) {
      console.out << "\n"
                  << Styled(console, Style::kBold, absl::StrCat("layer ", index)) << ": " << LayerLine(layer) << "\n\n";
      std::vector<std::vector<std::string>> rows;
      for (size_t g = 0; g < layer.described.groups.size(); ++g) {
        const TokenGroup& group = layer.described.groups[g];
        std::vector<std::string> common;
        for (size_t i = 0; i < std::min(kTokensShown, group.common.size()); ++i)
          common.push_back(QuotedToken(group.common[i].first));
        rows.push_back({absl::StrCat(g), absl::StrFormat("%.1f %%", 100 * layer.ShareOf(group)),
                        group.token_count == 0 ? "" : WordClassName(group.top_class()),
                        absl::StrFormat("%.3f", group.purity), absl::StrFormat("%.3f", group.shuffled_purity),
                        absl::StrJoin(common, " ")});
      }
      console.out << AlignedTable(console, {"group", "tokens", "most", "purity", "shuffled", "most frequent tokens"},
                                  {true, true, false, true, true, false}, rows);
    }
    console.out
        << "\nPurity is the share of a group's tokens in its most frequent word class, by word lists; shuffled, the "
           "same with\nclasses moved at random among the tokens. A token with k groups counts in each.\n";
  }

  absl::StatusOr<ExitCode> PrintRows(Console& console) const {
    std::vector<Column> columns;
    for (const char* key : {"layer", "group", "token_count", "token_share", "word_class", "purity", "shuffled_purity",
                            "layer_token_count", "layer_pairs_visible", "layer_largest_group", "layer_purity",
                            "layer_shuffled_purity", "common_tokens", "word_classes", "focus_attention"}) {
      columns.push_back({.key = key});
    }
    Rows rows(console, std::move(columns));
    for (const auto& [index, layer] : layers_) {
      for (size_t g = 0; g < layer.described.groups.size(); ++g) {
        const TokenGroup& group = layer.described.groups[g];
        Json common = Json::array(), classes = Json::object();
        for (const auto& [token, count] : group.common) common.push_back({{"token", token}, {"count", count}});
        for (size_t i = 0; i < kWordClassCount; ++i)
          classes[WordClassName(static_cast<WordClass>(i))] = group.classes[i];
        RETURN_IF_ERROR(
            rows.Add({{"layer", index},
                      {"group", g},
                      {"token_count", group.token_count},
                      {"token_share", layer.ShareOf(group)},
                      {"word_class", group.token_count == 0 ? Json() : Json(WordClassName(group.top_class()))},
                      {"purity", group.purity},
                      {"shuffled_purity", group.shuffled_purity},
                      {"layer_token_count", layer.token_count},
                      {"layer_pairs_visible", layer.pairs_visible()},
                      {"layer_largest_group", layer.largest_group()},
                      {"layer_purity", layer.described.purity},
                      {"layer_shuffled_purity", layer.described.shuffled_purity},
                      {"common_tokens", std::move(common)},
                      {"word_classes", std::move(classes)},
                      {"focus_attention", setting_}}));
      }
    }
    return DoneOr(rows.Finish());
  }

  report::StackedFigure FigureOf(const std::vector<WordClass>& classes) const {
    report::StackedFigure figure;
    figure.title = absl::StrCat("Tokens per group by word class: ", model_.model);
    figure.y_label = "share of tokens that hold the group; \u201call\u201d: all tokens, as high as an average group";
    figure.caption = Heading();
    for (size_t i = 0; i < kWordClassCount; ++i) figure.classes.push_back(WordClassName(static_cast<WordClass>(i)));
    for (const auto& [index, layer] : layers_) {
      report::StackedPanel panel{absl::StrCat("layer ", index), LayerLine(layer), {}};
      const double tokens = layer.token_count;
      double average = 0;
      for (size_t g = 0; g < layer.described.groups.size(); ++g) {
        const TokenGroup& group = layer.described.groups[g];
        report::StackedBar bar{absl::StrCat(g), {}};
        for (const int64_t count : group.classes) bar.shares.push_back(count / tokens);
        average += layer.ShareOf(group) / layer.group_count;
        panel.bars.push_back(std::move(bar));
      }
      report::StackedBar all{"all", std::vector<double>(kWordClassCount)};
      for (const WordClass found : classes) all.shares[static_cast<size_t>(found)] += average / tokens;
      panel.bars.push_back(std::move(all));
      figure.panels.push_back(std::move(panel));
    }
    return figure;
  }

  ModelFlags model_;
  std::string file_;
  std::optional<int64_t> layer_, context_;
  int64_t window_count_ = 16;
  v1::ComputeLogLikelihoodsRequest request_;
  Json trained_, setting_;  // focus_attention of the checkpoint, and under the run-time values
  std::string shown_windows_;
  std::map<int64_t, Layer> layers_;
  std::map<int32_t, std::string> texts_;  // of ids
};

}  // namespace

constinit const Verb kGroupsVerb = {
    .name = "groups",
    .group = "Models",
    .summary = "the tokens in the learned groups of a Focus checkpoint",
    .about =
        R"(Runs windows of a text through a model with learned groups (focus_attention) and shows, for each layer and group,
the share of tokens in it, its most frequent tokens, and its purity: the share of its tokens in its most
frequent word class (determiner, pronoun, preposition, conjunction, auxiliary, number, name, punctuation, piece
of a word, other), by lists of the closed classes of English. One class is always the most frequent; the control
is the purity of the same groups with classes shuffled over the tokens. A token with k groups counts in each.
JSON and CSV have a row for each layer and group; svg is a self-contained chart of the same data.
Layers with a sliding window are left out.)",
    .examples =
        "varifocal groups --model=models/focus --file=novel.txt\n"
        "varifocal groups --model=models/focus --file=novel.txt --layer=2 --focus-top-k=1 --format=json\n"
        "varifocal groups --model=models/focus --file=novel.txt --format=svg > groups.svg",
    .formats = "text json jsonl csv svg",
    .make = &Make<Groups>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
