#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/sha256.h"
#include "client/report/data/model_text.h"
#include "client/report/data/report_data.h"
#include "client/report/data/text_format.h"
#include "client/report/page/page.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

std::string Row(absl::string_view name, const std::string& value_html) {
  return absl::StrCat("<tr><th>", name, "</th><td>", value_html, "</td></tr>\n");
}

std::string Code(absl::string_view text) { return absl::StrCat("<code>", EscapeHtml(text), "</code>"); }

std::string WeightsFromHtml(const Json& function) {
  std::string out;
  for (const std::string& part : WeightsFrom(function)) absl::StrAppend(&out, "<small>", EscapeHtml(part), "</small>");
  return out;
}

std::string LayersHtml(const Json& function) {
  const std::string layers = LayersWithoutAttention(function);
  return layers.empty() ? "" : absl::StrCat("<small>none in layers ", layers, "</small>");
}

std::string VariantsTable(const ReportData& data) {
  std::string out =
      absl::StrCat(ScrollBegin("Variants"),
                   "<table class=\"data\"><thead><tr><th>Variant</th><th>Attention</th><th>Model</th><th>Weights</th>"
                   "<th>Tokenizer</th><th>Numbers</th><th class=\"n\">Trained at</th><th "
                   "class=\"n\">Limit</th></tr></thead><tbody>\n");
  for (const db::VariantRecord& variant : data.variants) {
    const db::ModelRecord& model = variant.model;
    const Json function = FunctionOf(model);
    absl::StrAppend(&out, "<tr><td>", EscapeHtml(variant.name),
                    variant.name == data.baseline ? "<small>baseline</small>" : "", "</td><td>",
                    EscapeHtml(AttentionLabel(variant)), LayersHtml(function), "</td><td>", EscapeHtml(model.name),
                    "<small>", EscapeHtml(model.architecture), "</small></td><td>",
                    Code(ShortHash(model.weights_sha256)), "</td><td>", Code(ShortHash(model.tokenizer_sha256)),
                    "</td><td>", EscapeHtml(model.dtype), WeightsFromHtml(function), "</td>");
    absl::StrAppend(&out, "<td class=\"n\">",
                    model.trained_context_length.has_value() ? LengthLabel(*model.trained_context_length) : "\u2014",
                    "</td><td class=\"n\">", LengthLabel(model.context_length_max), "</td></tr>\n");
  }
  return out + "</tbody></table></div>\n";
}

std::string ExecutionsTable(const ReportData& data) {
  std::string out = absl::StrCat(ScrollBegin("Executions"),
                                 "<table class=\"data\"><thead><tr><th>Started</th><th>Code</th><th>Backend</th>"
                                 "<th>Instructions</th><th>Device</th><th class=\"n\">Threads</th><th "
                                 "class=\"n\">Answers</th></tr></thead><tbody>\n");
  for (const db::ExecutionRow& row : data.executions) {
    const db::ExecutionRecord& execution = row.execution;
    absl::StrAppend(&out, "<tr><td>", TimeLabel(row.start_us), "</td><td>", Code(execution.code_version), "</td><td>",
                    EscapeHtml(execution.backend), "</td><td>", EscapeHtml(execution.instruction_set), "</td><td>",
                    EscapeHtml(execution.device), "<small>", EscapeHtml(execution.host),
                    "</small></td><td class=\"n\">", execution.thread_count, "</td><td class=\"n\">",
                    CountLabel(row.generation_count), "</td></tr>\n");
  }
  return out + "</tbody></table></div>\n";
}

// Cost of the answers: tokens and time by variant. Time is the models', summed over concurrent requests.
std::string WorkTable(const ReportData& data) {
  Json values = {{"rows", Json::array()}};
  for (size_t i = 0; i < data.work.size(); ++i) {
    const Work& work = data.work[i];
    if (work.answered_count == 0) continue;
    const double prefill = work.prefill_us / 1e6, decode = work.decode_us / 1e6;
    const auto rate = [](int64_t tokens, double seconds) {
      return seconds > 0 ? CountLabel(static_cast<int64_t>(tokens / seconds)) : "\u2014";
    };
    values["rows"].push_back({{"variant", data.variants[i].name},
                              {"answers", CountLabel(work.answered_count)},
                              {"prompt_tokens", CountLabel(work.computed_prompt_token_count)},
                              {"new_tokens", CountLabel(work.new_token_count)},
                              {"prefill", Unsigned(prefill, 1)},
                              {"decode", Unsigned(decode, 1)},
                              {"prefill_rate", rate(work.computed_prompt_token_count, prefill)},
                              {"decode_rate", rate(work.new_token_count, decode)}});
  }
  return values["rows"].empty() ? "" : FillTemplate("work_table.html", values);
}

std::string ImportsTable(const ReportData& data) {
  std::string out = absl::StrCat(ScrollBegin("Imported scores"),
                                 "<table class=\"data\"><thead><tr><th>Variant</th><th>Metric</th><th>File</th>"
                                 "<th>SHA-256</th><th>Imported</th><th class=\"n\">Scores</th></tr></thead><tbody>\n");
  for (const db::ScoreImportRow& row : data.score_imports) {
    absl::StrAppend(&out, "<tr><td>", EscapeHtml(row.variant), "</td><td>", EscapeHtml(row.metric), "</td><td>",
                    EscapeHtml(row.source), "</td><td>", Code(ShortHash(row.source_sha256)), "</td><td>",
                    TimeLabel(row.import_us), "</td><td class=\"n\">", CountLabel(row.value_count), "</td></tr>\n");
  }
  return out + "</tbody></table></div>\n";
}

// The command that reproduces the job; the suite is a built-in one's name or the user's file.
std::string SubmitLine(const db::JobRow& job, const std::string& daemon) {
  const auto spec = ParseJson(job.spec_json);
  if (!spec.ok() || !spec->is_object() || !spec->contains("suite") || !(*spec)["suite"].is_object()) return "";
  const Json& suite = (*spec)["suite"];
  std::vector<std::string> variants, lengths, tasks;
  bool has_gold = false;
  for (const Json& variant : spec->value("variants", Json::array())) {
    if (variant.is_string()) variants.push_back(variant.get<std::string>());
  }
  if (variants.empty()) return "";
  for (const Json& length : suite.value("lengths", Json::array())) lengths.push_back(length.dump());
  for (const Json& task : suite.value("tasks", Json::array())) {
    if (task.is_object() && task.contains("name") && task["name"].is_string())
      tasks.push_back(task["name"].get<std::string>());
    for (const Json& metric : task.is_object() ? task.value("metrics", Json::array()) : Json::array())
      has_gold |= metric.is_string() && absl::StartsWith(metric.get<std::string>(), "gold/");
  }
  std::string line = absl::StrCat("varifocal submit ", ShellWord(job.suite),
                                  " --models=", ShellWord(absl::StrJoin(variants, ",")), " --seed=", job.data_seed);
  for (const char* key : {"seeds", "epochs"}) {
    if (suite.contains(key)) absl::StrAppend(&line, " --", key, "=", suite[key].dump());
  }
  if (const Json form = suite.value("form", Json()); form.is_string())
    absl::StrAppend(&line, " --form=", form.get<std::string>());
  if (!lengths.empty()) absl::StrAppend(&line, " --lengths=", absl::StrJoin(lengths, ","));
  if (!tasks.empty()) absl::StrAppend(&line, " --tasks=", ShellWord(absl::StrJoin(tasks, ",")));
  if (const Json limit = spec->value("limit", Json(0)); limit.is_number_integer() && limit.get<int64_t>() > 0)
    absl::StrAppend(&line, " --limit=", limit.dump());
  if (!daemon.empty()) absl::StrAppend(&line, " --daemon=", ShellWord(daemon));
  if (has_gold) line += " --score-gold";
  if (spec->value("inspect", Json()) == true) line += " --inspect";
  if (const Json rows = spec->value("inspected_rows", Json()); rows.is_string())
    absl::StrAppend(&line, " --inspected-rows=", ShellWord(rows.get<std::string>()));
  if (spec->value("keep_prompts", Json()) == true) line += " --keep-prompts";
  const Json decode = spec->value("decode", Json::object());
  for (const auto& [key, flag] :
       {std::pair("sampling_temperature", " --sampling-temperature="), std::pair("top_k", " --top-k="),
        std::pair("top_p", " --top-p="), std::pair("min_p", " --min-p=")}) {
    if (decode.is_object() && decode.contains(key)) absl::StrAppend(&line, flag, decode[key].dump());
  }
  return line + "\n";
}

// The value of --listen in a daemon's command line; "" for the default.
std::string ListenAddress(const std::string& command) {
  std::string address;
  const std::vector<std::string> words = absl::StrSplit(command, ' ', absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (absl::ConsumePrefix(&word, "--listen=")) address = std::string(word);
    if (word == "--listen" && i + 1 < words.size()) address = words[i + 1];
  }
  // A daemon that listens on all addresses is reached at this one.
  if (absl::StartsWith(address, "0.0.0.0:")) address.replace(0, 7, "127.0.0.1");
  return address;
}

std::string Commands(const ReportData& data) {
  std::string out, last, daemon;
  bool has_daemon = data.executions.empty();
  for (const db::ExecutionRow& row : data.executions) {
    const std::string& command = row.execution.command_line;
    has_daemon |= !absl::StartsWith(command, "varifocal run ");  // which submits the job itself
    if (command.empty() || command == last) continue;
    last = command;
    const bool is_daemon = absl::EndsWith(command.substr(0, command.find(' ')), "varifocald");
    if (is_daemon) daemon = ListenAddress(command);
    absl::StrAppend(&out, last, is_daemon ? " &\n" : "\n");
  }
  if (has_daemon) {
    out += SubmitLine(data.job, daemon);
    for (const db::JobRow& job : data.other_jobs) out += SubmitLine(job, daemon);
  }
  const std::string database = ShellWord(data.database_path);
  for (size_t i = 1; i < data.variants.size(); ++i) {
    absl::StrAppend(&out, "varifocal compare --db=", database, " --job=", data.job.job_id,
                    " --baseline=", ShellWord(data.baseline), " --candidate=", ShellWord(data.variants[i].name), "\n");
  }
  absl::StrAppend(&out, "varifocal report --db=", database, " --job=", data.job.job_id);
  if (!data.other_jobs.empty()) {
    std::vector<std::string> candidates;
    for (size_t i = 1; i < data.variants.size(); ++i) candidates.push_back(data.variants[i].name);
    absl::StrAppend(&out, " --baseline=", ShellWord(data.baseline),
                    " --candidates=", ShellWord(absl::StrJoin(candidates, ",")));
  }
  out += " --out=report.html\n";
  return absl::StrCat("<pre class=\"commands\">", EscapeHtml(out), "</pre>\n");
}

std::string JobRows(const db::JobRow& job) {
  return absl::StrCat(Row("Job", absl::StrCat(job.job_id, ", ", db::JobStateName(job.state))),
                      Row("Suite", EscapeHtml(job.suite)), Row("Submitted", TimeLabel(job.create_us)),
                      Row("Specification SHA-256", Code(job.spec_sha256)),
                      Row("Data seed", absl::StrCat(job.data_seed)));
}

}  // namespace

std::string ProvenanceHtml(const ReportData& data) {
  std::string spec = data.job.spec_json;
  if (auto parsed = ParseJson(spec); parsed.ok()) spec = parsed->dump(2);
  std::string out = "<h3>Variants</h3>\n" + VariantsTable(data);
  if (!data.executions.empty()) out += "<h3>Executions</h3>\n" + ExecutionsTable(data);
  if (const std::string work = WorkTable(data); !work.empty()) out += "<h3>Work</h3>\n" + work;
  if (!data.score_imports.empty()) {
    out += absl::StrCat("<h3>Scores from elsewhere</h3>\n<p class=\"note\">",
                        EscapeHtml(Sentence("scores_from_elsewhere")), "</p>\n", ImportsTable(data));
  }
  absl::StrAppend(&out, "<h3>Job</h3>\n<table class=\"facts\">", JobRows(data.job));
  for (const db::JobRow& job : data.other_jobs) out += JobRows(job);
  for (const db::VariantRecord& variant : data.variants) {
    absl::StrAppend(&out, Row(absl::StrCat(EscapeHtml(variant.name),
                                           db::IsImported(variant)   ? ", answers"
                                           : db::IsEndpoint(variant) ? ", what the server states,"
                                                                     : ", weights",
                                           " SHA-256"),
                              Code(variant.model.weights_sha256)));
    const std::optional<std::string>& function = variant.model.function_json;
    absl::StrAppend(
        &out, Row(absl::StrCat(EscapeHtml(variant.name), ", configuration SHA-256"),
                  function.has_value() ? absl::StrCat("<details><summary>", Code(Sha256Hex(*function)),
                                                      "</summary><pre>", EscapeHtml(*function), "</pre></details>")
                                       : "not recorded: the job is of an earlier version"));
  }
  absl::StrAppend(&out, "</table>\n<details><summary>Specification</summary><pre>", EscapeHtml(spec),
                  "</pre></details>\n<h3>To make it again</h3>\n<p class=\"note\">",
                  EscapeHtml(Sentence("to_make_again")), "</p>\n", Commands(data));
  return out;
}

std::vector<Json> WorkJson(const ReportData& data) {
  std::vector<Json> rows;
  for (size_t i = 0; i < data.work.size(); ++i) {
    const Work& work = data.work[i];
    rows.push_back({{"kind", "work"},
                    {"variant", data.variants[i].name},
                    {"answer_count", work.answered_count},
                    {"computed_prompt_token_count", work.computed_prompt_token_count},
                    {"new_token_count", work.new_token_count},
                    {"prefill_seconds", work.prefill_us / 1e6},
                    {"decode_seconds", work.decode_us / 1e6}});
  }
  return rows;
}

}  // namespace varifocal::report
