#include "db/pairing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "db/variant_names.h"

namespace varifocal::db {
namespace {

constexpr int64_t kPageSize = 500;

using CellKey = std::pair<std::string, int64_t>;  // task, context length

// A sample and its outcome, without the texts.
struct Asked {
  int64_t sample_index = 0;
  std::string question_id, cluster;
  std::string question;  // identity of the question, except for the prompt
  std::optional<std::string> prompt_sha256;
  std::optional<std::string> error;
  std::map<std::string, ReducedQuestion> scores;  // of several epochs of each metric
  bool is_partial = false;
  std::string form;  // of several epochs, for the majority
};

struct PairSide {
  JobVariant key;
  JobRow job;
  VariantRecord variant;
  std::vector<TaskMetricRecord> metrics;
  std::map<CellKey, int64_t> planned;
  std::map<CellKey, std::vector<Asked>> asked;  // by sample index
  int64_t asked_count = 0;
  JobEpochs epochs;
};

std::string FullName(const JobVariant& variant) { return JobVariantLabel(variant, 0); }

// The answers to one question as one. They follow each other from `begin` to `end`.
Asked Reduce(const PairSide& side, const std::string& task, std::vector<Asked>::iterator begin,
             std::vector<Asked>::iterator end) {
  Asked question = *begin;
  question.sample_index /= side.epochs.count;
  question.is_partial = end - begin < side.epochs.count;
  for (auto asked = begin; asked != end; ++asked) {
    if (!question.error.has_value()) question.error = asked->error;
    if (!question.prompt_sha256.has_value()) question.prompt_sha256 = asked->prompt_sha256;
  }
  for (const TaskMetricRecord& metric : side.metrics) {
    if (metric.task != task) continue;
    std::vector<EpochValue> values;
    for (auto asked = begin; asked != end; ++asked) {
      const auto found = asked->scores.find(metric.metric);
      EpochValue& value = values.emplace_back(EpochValue{{}, asked->error.has_value(), asked->form});
      if (found != asked->scores.end()) value.value = found->second.value;
    }
    question.scores[metric.metric] = ReduceQuestion(side.epochs.statistic, std::move(values), question.is_partial,
                                                    metric.worst_value, metric.best_value);
  }
  return question;
}

// Of several epochs: the questions of a cell in place of its answers.
void ReduceCell(const PairSide& side, const std::string& task, std::vector<Asked>& asked) {
  if (side.epochs.count == 1) return;
  std::vector<Asked> questions;
  for (auto begin = asked.begin(); begin != asked.end();) {
    const int64_t index = begin->sample_index / side.epochs.count;
    const auto end = std::find_if(begin, asked.end(),
                                  [&](const Asked& other) { return other.sample_index / side.epochs.count != index; });
    questions.push_back(Reduce(side, task, begin, end));
    begin = end;
  }
  asked = std::move(questions);
}

absl::StatusOr<PairSide> ReadSide(Reader& reader, const JobVariant& key) {
  PairSide side;
  side.key = key;
  ASSIGN_OR_RETURN(side.job, reader.Job(key.job_id));
  ASSIGN_OR_RETURN(const std::vector<VariantRecord> variants, reader.Variants(key.job_id));
  for (const VariantRecord& variant : variants) {
    if (variant.name == key.name) side.variant = variant;
  }
  if (side.variant.name.empty()) {
    return absl::NotFoundError(NoSuchVariant(key.job_id, key.name, variants));
  }
  ASSIGN_OR_RETURN(side.metrics, reader.Metrics(key.job_id));
  ASSIGN_OR_RETURN(side.epochs, reader.Epochs(key.job_id));
  ASSIGN_OR_RETURN(const std::vector<CellRow> cells, reader.QuestionCells(key.job_id));
  for (const CellRow& row : cells) {
    if (row.cell.variant == key.name) side.planned[{row.cell.task, row.cell.context_length}] = row.cell.planned_count;
  }
  SampleQuery query;
  query.job_id = key.job_id;
  query.variant = key.name;
  query.limit = kPageSize;
  for (bool is_more = true; is_more;) {
    ASSIGN_OR_RETURN(const std::vector<SampleDetail> page, reader.Samples(query));
    is_more = std::ssize(page) == kPageSize;
    for (const SampleDetail& detail : page) {
      query.after_id = detail.generation_id;
      const SampleRecord& sample = detail.sample;
      Asked asked{
          sample.sample_index, sample.question_id, sample.cluster, "", sample.token_ids_sha256, {}, {}, false, ""};
      asked.question =
          Json{sample.question_id, sample.gold_json, sample.continuations_json.value_or(""), sample.new_token_count_max}
              .dump(-1, ' ', true, Json::error_handler_t::replace);
      if (!detail.generation.error_code.empty()) asked.error = detail.generation.error_code;
      for (const ScoreRecord& score : detail.scores) asked.scores[score.metric] = {score.value};
      if (side.epochs.count > 1) asked.form = MajorityForm(detail.generation.answer.value_or(""));
      side.asked[{sample.task, sample.context_length}].push_back(std::move(asked));
    }
  }
  for (auto& [cell, asked] : side.asked) {
    std::sort(asked.begin(), asked.end(),
              [](const Asked& a, const Asked& b) { return a.sample_index < b.sample_index; });
    ReduceCell(side, cell.first, asked);
    side.asked_count += std::ssize(asked);
  }
  return side;
}

// A task's entry in a specification, without the fields that do not affect its questions; null if there is none.
Json TaskSettings(const JobRow& job, const std::string& task) {
  const absl::StatusOr<Json> spec = ParseJson(job.spec_json);
  if (!spec.ok() || !spec->is_object()) return nullptr;
  const Json suite = spec->value("suite", Json());
  const Json tasks = suite.is_object() ? suite.value("tasks", Json()) : Json();
  if (!tasks.is_array()) return nullptr;
  for (Json entry : tasks) {
    if (!entry.is_object() || entry.value("name", Json()) != task) continue;
    for (const char* key : {"metrics", "samples", "samples_at"}) entry.erase(key);
    if (entry.contains("parameters") && entry["parameters"].is_object()) entry["parameters"].erase("path");
    return entry;
  }
  return nullptr;
}

bool HasSameSettings(const PairSide& baseline, const PairSide& candidate, const std::string& task) {
  const Json settings = TaskSettings(baseline.job, task);
  return !settings.is_null() && settings == TaskSettings(candidate.job, task) &&
         baseline.job.data_seed == candidate.job.data_seed;
}

// Matching questions of one cell as indices into both lists, in the baseline's order. Equal ones are paired in order.
std::vector<std::pair<size_t, size_t>> Match(const std::vector<Asked>& baseline, const std::vector<Asked>& candidate,
                                             bool by_prompt, bool has_same_settings) {
  std::vector<std::pair<size_t, size_t>> matched;
  std::vector<bool> is_used(candidate.size()), is_matched(baseline.size());
  const auto match = [&](const auto& key_of, const auto& may_match) {
    std::multimap<std::string, size_t> by_key;
    for (size_t c = 0; c < candidate.size(); ++c) {
      if (!is_used[c]) by_key.emplace(key_of(candidate[c]), c);
    }
    for (size_t b = 0; b < baseline.size(); ++b) {
      const auto found = is_matched[b] ? by_key.end() : by_key.find(key_of(baseline[b]));
      if (found == by_key.end() || !may_match(baseline[b], candidate[found->second])) continue;
      matched.emplace_back(b, found->second);
      is_matched[b] = is_used[found->second] = true;
      by_key.erase(found);
    }
  };
  if (by_prompt) {
    match([](const Asked& asked) { return absl::StrCat(asked.prompt_sha256.value_or(""), asked.question); },
          [](const Asked& b, const Asked& c) { return b.prompt_sha256.has_value() && c.prompt_sha256.has_value(); });
  }
  if (has_same_settings) {
    match([](const Asked& asked) { return absl::StrCat(asked.sample_index, asked.question); },
          [&](const Asked& b, const Asked& c) { return !by_prompt || !b.prompt_sha256 || !c.prompt_sha256; });
  }
  std::sort(matched.begin(), matched.end());
  return matched;
}

PairRow MakePair(const PairSide& baseline, const PairSide& candidate, const CellKey& cell,
                 const TaskMetricRecord& metric, const Asked& b, const Asked& c) {
  const auto set = [&](const Asked& asked, std::optional<double>& value, std::optional<std::string>& error) {
    const auto found = asked.scores.find(metric.metric);
    const bool is_found = found != asked.scores.end();
    value = is_found ? found->second.value : asked.error.has_value() ? metric.worst_value : std::nullopt;
    if (!is_found || found->second.keeps_error) error = asked.error;
  };
  PairRow row;
  row.job_id = baseline.key.job_id;
  row.task = cell.first;
  row.metric = metric.metric;
  row.context_length = cell.second;
  row.question_id = b.question_id;
  row.cluster = b.cluster;
  row.baseline_variant = baseline.key.name;
  row.candidate_variant = JobVariantLabel(candidate.key, baseline.key.job_id);
  set(b, row.baseline_value, row.baseline_error);
  set(c, row.candidate_value, row.candidate_error);
  if (row.baseline_value && row.candidate_value) row.difference = *row.candidate_value - *row.baseline_value;
  row.is_partial = b.is_partial || c.is_partial;
  return row;
}

absl::Status NothingInCommon(const PairSide& baseline, const PairSide& candidate, bool by_prompt) {
  return NotFound(
      FullName(baseline.key), " and ", FullName(candidate.key), " were asked ", baseline.asked_count, " and ",
      candidate.asked_count, " questions, and none is the same ",
      by_prompt
          ? "(task, context length, question, gold answers and token_ids_sha256 of the prompt)"
          : "(with two tokenizers: task, context length, question, gold answers, and the task's settings, data hash "
            "and seed in both specifications)",
      "; ask both the same suite with the same rows, seed and chat template, or name other jobs, such as 3/",
      baseline.key.name);
}

struct JobWithVariants {
  int64_t job_id = 0;
  std::set<std::string> names;
};

absl::StatusOr<std::vector<JobWithVariants>> JobsWithVariants(Reader& reader) {  // newest first
  std::vector<JobWithVariants> all;
  for (bool is_more = true; is_more;) {
    ASSIGN_OR_RETURN(const std::vector<JobRow> page, reader.Jobs(all.empty() ? 0 : all.back().job_id, kPageSize));
    is_more = std::ssize(page) == kPageSize;
    for (const JobRow& job : page) {
      JobWithVariants row{job.job_id, {}};
      ASSIGN_OR_RETURN(const std::vector<VariantRecord> variants, reader.Variants(job.job_id));
      for (const VariantRecord& variant : variants) row.names.insert(variant.name);
      all.push_back(std::move(row));
    }
  }
  return all;
}

std::vector<int64_t> JobsOf(const std::vector<JobWithVariants>& jobs, const std::string& name) {
  std::vector<int64_t> ids;
  for (const JobWithVariants& job : jobs) {
    if (job.names.count(name) > 0) ids.push_back(job.job_id);
  }
  return ids;
}

// The newest of `jobs` in which `name` and `anchor` have a question in common.
absl::StatusOr<int64_t> PartnerJob(Reader& reader, const JobVariant& anchor, const std::string& name,
                                   const std::vector<int64_t>& jobs) {
  for (const int64_t job_id : jobs) {
    const absl::StatusOr<CrossPairs> pairs = PairAcrossJobs(reader, anchor, {job_id, name});
    if (pairs.ok() && !pairs->pairs.empty()) return job_id;
    if (!pairs.ok() && !absl::IsNotFound(pairs.status())) return pairs.status();
  }
  return NotFound(FullName(anchor), " and ", name, " are in different jobs and have no question in common (", name,
                  " is in jobs ", absl::StrJoin(jobs, ", "), "); ask both the same suite, or name the jobs, such as ",
                  jobs.front(), "/", name, ", to see what differs");
}

}  // namespace

JobVariant ParseJobVariant(absl::string_view text) {
  absl::string_view rest = absl::StripPrefix(text, "jobs/");
  const size_t slash = rest.find('/');
  JobVariant variant;
  if (slash != absl::string_view::npos && absl::SimpleAtoi(rest.substr(0, slash), &variant.job_id) &&
      variant.job_id > 0) {
    variant.name = std::string(rest.substr(slash + 1));
    return variant;
  }
  return {0, std::string(text)};
}

std::string JobVariantLabel(const JobVariant& variant, int64_t job_id_at_hand) {
  if (variant.job_id == job_id_at_hand) return variant.name;
  return absl::StrCat("jobs/", variant.job_id, "/", variant.name);
}

absl::StatusOr<std::vector<JobVariant>> FindJobVariants(Reader& reader, std::optional<int64_t> job_id,
                                                        std::vector<JobVariant> variants) {
  const auto is_named = [](const JobVariant& variant) { return variant.job_id > 0; };
  if (job_id.has_value()) {
    RETURN_IF_ERROR(reader.Job(*job_id).status());
    for (JobVariant& variant : variants) variant.job_id = is_named(variant) ? variant.job_id : *job_id;
  }
  if (variants.empty() || std::all_of(variants.begin(), variants.end(), is_named)) return variants;
  const auto named = std::find_if(variants.begin(), variants.end(), is_named);
  if (named == variants.end()) {
    const absl::StatusOr<JobRow> job = reader.LatestJob(NamesOf(variants));
    if (job.ok()) return FindJobVariants(reader, job->job_id, std::move(variants));
    if (!absl::IsNotFound(job.status())) return job.status();
  }
  ASSIGN_OR_RETURN(const std::vector<JobWithVariants> jobs, JobsWithVariants(reader));
  if (jobs.empty()) return reader.LatestJob().status();
  std::map<std::string, std::vector<int64_t>> jobs_of;
  for (const JobVariant& variant : variants) {
    jobs_of[variant.name] = JobsOf(jobs, variant.name);
    if (is_named(variant) || !jobs_of[variant.name].empty()) continue;
    std::set<std::string> seen;
    std::string stored;
    for (const JobWithVariants& job : jobs) {
      seen.insert(job.names.begin(), job.names.end());
      if (!stored.empty()) continue;
      ASSIGN_OR_RETURN(const std::vector<VariantRecord> of_job, reader.Variants(job.job_id));
      stored = StoredAs(variant.name, of_job);
    }
    return NotFound("no job has the variant ", variant.name, "; the database's variants are ",
                    absl::StrJoin(seen, ", "), stored);
  }
  const auto rarest = std::min_element(variants.begin(), variants.end(), [&](const auto& a, const auto& b) {
    return jobs_of[a.name].size() < jobs_of[b.name].size();
  });
  const JobVariant anchor = named != variants.end() ? *named : JobVariant{jobs_of[rarest->name].front(), rarest->name};
  for (JobVariant& variant : variants) {
    if (is_named(variant)) continue;
    const std::vector<int64_t>& own = jobs_of[variant.name];
    if (std::find(own.begin(), own.end(), anchor.job_id) != own.end()) {
      variant.job_id = anchor.job_id;
    } else {
      ASSIGN_OR_RETURN(variant.job_id, PartnerJob(reader, anchor, variant.name, own));
    }
  }
  return variants;
}

absl::StatusOr<std::optional<JobRow>> EarlierJob(Reader& reader, int64_t job_id,
                                                 const std::vector<std::string>& variants,
                                                 const std::function<bool(const JobRow&)>& is_wanted) {
  ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, reader.Jobs(job_id));
  for (const JobRow& job : jobs) {
    if (!is_wanted(job)) continue;
    ASSIGN_OR_RETURN(const std::vector<VariantRecord> all, reader.Variants(job.job_id));
    const auto has = [&](const std::string& name) {
      return std::any_of(all.begin(), all.end(), [&](const VariantRecord& variant) { return variant.name == name; });
    };
    if (std::all_of(variants.begin(), variants.end(), has)) return job;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<JobRow>> CompleteJobBefore(Reader& reader, const JobRow& job,
                                                        const std::vector<std::string>& variants) {
  if (job.answered_count + job.failed_count >= job.planned_count) return std::nullopt;
  return EarlierJob(reader, job.job_id, variants,
                    [](const JobRow& earlier) { return earlier.answered_count == earlier.planned_count; });
}

bool IsImported(const VariantRecord& variant) { return variant.model.architecture == "imported"; }

bool IsEndpoint(const VariantRecord& variant) { return variant.model.architecture == "endpoint"; }

absl::StatusOr<CrossPairs> PairAcrossJobs(Reader& reader, const JobVariant& baseline, const JobVariant& candidate) {
  ASSIGN_OR_RETURN(const PairSide b, ReadSide(reader, baseline));
  ASSIGN_OR_RETURN(const PairSide c, ReadSide(reader, candidate));
  CrossPairs result;
  result.tokenizers_differ = b.variant.model.tokenizer_sha256 != c.variant.model.tokenizer_sha256;
  for (const TaskMetricRecord& metric : b.metrics) {
    const bool is_alike = std::any_of(c.metrics.begin(), c.metrics.end(), [&](const TaskMetricRecord& other) {
      return other.task == metric.task && other.metric == metric.metric && other.is_binary == metric.is_binary &&
             other.worst_value == metric.worst_value && other.best_value == metric.best_value;
    });
    if (is_alike) result.metrics.push_back(metric);
  }
  std::map<CellKey, PairedCell> cells;
  for (const PairSide* side : {&b, &c}) {
    for (const auto& [key, planned] : side->planned) cells[key] = {key.first, key.second};
  }
  const auto asked_of = [](const PairSide& side, const CellKey& key) {
    const auto found = side.asked.find(key);
    return found == side.asked.end() ? std::vector<Asked>() : found->second;
  };
  std::set<std::string> other_settings;
  int64_t paired_count = 0;
  for (auto& [key, cell] : cells) {
    const std::vector<Asked> b_asked = asked_of(b, key), c_asked = asked_of(c, key);
    const bool has_same_settings = HasSameSettings(b, c, key.first);
    const auto matched = Match(b_asked, c_asked, !result.tokenizers_differ, has_same_settings);
    cell.paired_count = matched.size();
    cell.baseline_left_out_count = std::ssize(b_asked) - cell.paired_count;
    cell.candidate_left_out_count = std::ssize(c_asked) - cell.paired_count;
    if (b.planned.count(key) > 0 && c.planned.count(key) > 0) {
      // Questions that neither side has under another prompt may still be paired.
      cell.planned_count =
          std::max(cell.paired_count, std::min(b.planned.at(key), c.planned.at(key)) -
                                          std::min(cell.baseline_left_out_count, cell.candidate_left_out_count));
    }
    paired_count += cell.paired_count;
    if (!matched.empty() && !has_same_settings) other_settings.insert(key.first);
    for (const auto& [at_b, at_c] : matched) {
      for (int64_t epoch = 0; epoch < std::min(b.epochs.count, c.epochs.count); ++epoch) {
        result.baseline_index[{key.first, key.second, c_asked[at_c].sample_index * c.epochs.count + epoch}] =
            b_asked[at_b].sample_index * b.epochs.count + epoch;
      }
      for (const TaskMetricRecord& metric : result.metrics) {
        if (metric.task == key.first) result.pairs.push_back(MakePair(b, c, key, metric, b_asked[at_b], c_asked[at_c]));
      }
    }
    result.cells.push_back(cell);
  }
  if (paired_count == 0 && b.asked_count > 0 && c.asked_count > 0)
    return NothingInCommon(b, c, !result.tokenizers_differ);
  result.tasks_with_other_settings.assign(other_settings.begin(), other_settings.end());
  std::stable_sort(result.pairs.begin(), result.pairs.end(), [](const PairRow& x, const PairRow& y) {
    return std::tie(x.task, x.metric, x.context_length, x.question_id) <
           std::tie(y.task, y.metric, y.context_length, y.question_id);
  });
  return result;
}

}  // namespace varifocal::db
