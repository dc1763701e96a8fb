// varifocal attention: what one answer attended to, per layer and head, and as a drawing.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/report/charts/attention_strip.h"
#include "client/report/data/attention_heads.h"
#include "client/report/data/model_text.h"
#include "client/report/data/text_format.h"
#include "client/report/report.h"
#include "client/rows.h"
#include "client/usage.h"
#include "client/verb.h"
#include "db/reader.h"
#include "eval_tasks/job_spec.h"

namespace varifocal::client {
namespace {

Column Number(const char* key, const char* title, double factor, int decimals) {
  return {.key = key, .title = title, .right_aligned = true, .text = [=](const Json& row) -> std::string {
            return row[key].is_null() ? "" : report::Unsigned(row[key].get<double>() * factor, decimals);
          }};
}

class Attention : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("SAMPLE", &sample_, "TASK/LENGTH/INDEX/VARIANT, such as recall_kv/2K/0/baseline").Required();
    flags.Add("db", &db_, "PATH", "the results database; a daemon may be writing to it").Required();
    flags.Add("job", &job_, "JOB", "this job instead of the newest one");
    flags.Add("out", &out_, "PATH", "also draw the strip of every layer and head, as SVG");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    ASSIGN_OR_RETURN(db::SampleQuery query, ReadSample());
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(db_));
    if (query.job_id == 0) {
      ASSIGN_OR_RETURN(const db::JobRow job, reader->LatestJob({*query.variant}));
      query.job_id = job.job_id;
    }
    ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> details, reader->Samples(query));
    if (details.empty()) return NotFound("jobs/", query.job_id, " has no answer of ", sample_);
    ASSIGN_OR_RETURN(const std::vector<db::AttentionHeadRecord> heads,
                     reader->AttentionHeads(details.front().generation_id));
    if (heads.empty()) {
      return NotFound("jobs/", query.job_id, " has no attention of ", sample_, ": submit with --inspect stores it");
    }
    std::vector<report::StripRow> strip;
    for (const db::AttentionHeadRecord& head : heads) {
      ASSIGN_OR_RETURN(report::StripRow row, report::ToStripRow(head));
      strip.push_back(std::move(row));
    }
    if (!out_.empty()) {
      const std::string svg =
          report::DrawStrip(sample_, report::PlaceOf(details.front().sample), strip, /*is_alone=*/true);
      if (out_ == "-") {
        console.out << svg;
        return ExitCode::kDone;
      }
      RETURN_IF_ERROR(WriteWhole(out_, svg));
    }
    ASSIGN_OR_RETURN(const db::VariantRecord variant, VariantOf(*reader, query));
    const bool has_sink = HasSink(variant);
    std::vector<Column> columns = {Number("layer", "LAYER", 1, 0),
                                   Number("head", "HEAD", 1, 0),
                                   Number("scale", "SCALE", 1, 4),
                                   Number("effective_keys", "KEYS", 1, 1),
                                   Number("largest_weight", "LARGEST %", 100, 1),
                                   Number("evidence_mass", "EVIDENCE %", 100, 2),
                                   Number("distractor_mass", "DISTRACTORS %", 100, 2),
                                   Number("question_mass", "QUESTION %", 100, 2),
                                   Number("first_mass", "FIRST %", 100, 2)};
    if (has_sink) columns.push_back(Number("sink_mass", "SINK %", 100, 0));
    columns.push_back({.key = "strip", .title = ""});
    Rows rows(console, std::move(columns));
    for (size_t i = 0; i < heads.size(); ++i) {
      const db::AttentionHeadRecord& head = heads[i];
      Json row = {{"layer", head.layer},
                  {"head", head.head},
                  {"scale", head.scale},
                  {"effective_keys", std::exp(head.entropy)},
                  {"largest_weight", head.largest_weight},
                  {"evidence_mass", OrNull(head.evidence_mass)},
                  {"distractor_mass", OrNull(head.distractor_mass)},
                  {"question_mass", OrNull(head.question_mass)},
                  {"first_mass", head.first_mass},
                  {"strip", strip[i].masses}};
      // What the keys do not have; the strip is of all keys, to 2.2 % of each part.
      if (has_sink)
        row["sink_mass"] = std::max(0.0, 1 - std::accumulate(strip[i].masses.begin(), strip[i].masses.end(), 0.0));
      RETURN_IF_ERROR(rows.Add(std::move(row)));
    }
    RETURN_IF_ERROR(rows.Finish());
    NoteModel(variant.model, console);
    return ExitCode::kDone;
  }

 private:
  // What its weights are computed from, in which number format it computes, and which layers have no heads.
  static void NoteModel(const db::ModelRecord& model, Console& console) {
    const Json function = report::FunctionOf(model);
    const std::vector<std::string> from = report::WeightsFrom(function);
    if (!from.empty())
      console.err << "weights " << absl::StrJoin(from, "; ") << "; computed in " << model.dtype << "\n";
    const std::string note = report::LayersWithoutAttentionNote(function);
    if (!note.empty()) console.err << note << "\n";
  }

  static absl::StatusOr<db::VariantRecord> VariantOf(db::Reader& reader, const db::SampleQuery& query) {
    ASSIGN_OR_RETURN(std::vector<db::VariantRecord> variants, reader.Variants(query.job_id));
    for (db::VariantRecord& variant : variants) {
      if (variant.name == *query.variant) return std::move(variant);
    }
    return NotFound("jobs/", query.job_id, " has no variant ", *query.variant);
  }

  // Whether heads of the variant have an attention sink: its checkpoint's, or one set at run time.
  static bool HasSink(const db::VariantRecord& variant) {
    const auto attention = ParseJson(variant.model.attention_json);
    const auto parsed = ParseVariant(variant.name);
    return (attention.ok() && attention->contains("attention_sink")) ||
           (parsed.ok() && parsed->overrides.contains("sink"));
  }

  absl::StatusOr<db::SampleQuery> ReadSample() const {
    const std::vector<std::string> parts = absl::StrSplit(sample_, absl::MaxSplits('/', 3));
    db::SampleQuery query;
    int64_t index = 0;
    if (parts.size() != 4 || !absl::SimpleAtoi(parts[2], &index)) {
      return UsageError("\"", sample_, "\" is not a sample; it must be TASK/LENGTH/INDEX/VARIANT.");
    }
    query.task = parts[0];
    ASSIGN_OR_RETURN(query.context_length, ParseContextLength(parts[1]));
    query.sample_index = index;
    query.variant = parts[3];
    query.limit = 1;
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(query.job_id, JobNumber(job_));
    }
    return query;
  }

  std::string sample_, db_, job_, out_;
};

}  // namespace

constinit const Verb kAttentionVerb = {
    .name = "attention",
    .group = "Results",
    .summary = "what one answer attended to, per layer and head",
    .about =
        "For an answer of a job that was submitted with --inspect: shares of each head's attention weight at the last\n"
        "row of the prompt, which gives the first token of the answer. KEYS is the effective number of keys (the\n"
        "exponential of the entropy), EVIDENCE, DISTRACTORS and QUESTION are the shares on those parts of the prompt,\n"
        "FIRST on its first token, SINK the share that an attention sink takes from all keys. --out draws a strip of\n"
        "each layer and head over the prompt; - is standard output, without the table. JSON and CSV have the strip's\n"
        "numbers: shares on equal parts of the prompt, from its start.",
    .examples =
        "varifocal attention recall_kv/2K/0/baseline --db=results.db --out=strip.svg\n"
        "varifocal attention recall_kv/2K/0/baseline --db=results.db --format=csv",
    .formats = "text json jsonl csv",
    .make = &Make<Attention>,
};

}  // namespace varifocal::client
