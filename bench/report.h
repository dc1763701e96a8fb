// Results of cpu_bench: rows with peers, merged into one JSON file, one Markdown text and one SVG. A run replaces the rows
// that it measured and keeps the others, so that the sections can be run separately.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"

namespace varifocal {

struct BenchFigure {
  std::string who;  // "PyTorch", "transformers", "llama.cpp", "cold"
  double wall_seconds = 0;
  double cpu_seconds = 0;  // of all threads; 0: unknown
};

struct BenchRow {
  std::string section, name, dtype, isa;
  int threads = 0, rounds = 0;
  std::string unit;  // of amount: "GF/s", "GB/s", "tokens/s", "questions/s"
  int64_t tokens = 0;
  bool right = true;               // checked against float64, a peer, or the same question cold
  double amount = 0;               // flops, bytes, tokens or questions of one run
  double limited = 0;              // flops or bytes of one run that are limited by the machine
  double limit = 0;                // per second of one thread; 0: none
  BenchFigure ours;                // medians
  std::vector<BenchFigure> peers;  // requested peers; not measured: wall_seconds 0

  double scale() const { return unit[0] == 'G' ? 1e-9 : 1; }
  double of_limit() const { return limit > 0 ? limited / ours.cpu_seconds / limit : 0; }
  bool IsSameCase(const BenchRow& other) const {
    return section == other.section && name == other.name && dtype == other.dtype && isa == other.isa &&
           threads == other.threads;
  }
};

// The peer's time relative to ours; by CPU seconds where both are known, else 0.
inline double WallRatio(const BenchRow& row, const BenchFigure& peer) {
  return peer.wall_seconds / row.ours.wall_seconds;
}
inline double CpuRatio(const BenchRow& row, const BenchFigure& peer) { return peer.cpu_seconds / row.ours.cpu_seconds; }

inline std::string BenchLine(const BenchRow& row) {
  std::string line = absl::StrFormat("%s, %s, %s, %d thread%s: %.4g %s, %.4f s", row.name, row.dtype, row.isa,
                                     row.threads, row.threads == 1 ? "" : "s",
                                     row.amount / row.ours.wall_seconds * row.scale(), row.unit, row.ours.wall_seconds);
  if (row.limit > 0) absl::StrAppendFormat(&line, ", %.2f of peak by CPU second", row.of_limit());
  for (const BenchFigure& peer : row.peers) {
    if (peer.wall_seconds <= 0) continue;
    absl::StrAppendFormat(&line, "; %s %.4f s: %.2f times", peer.who, peer.wall_seconds, WallRatio(row, peer));
    if (peer.cpu_seconds > 0) absl::StrAppendFormat(&line, " (%.2f by CPU second)", CpuRatio(row, peer));
  }
  return row.right ? line : line + "; WRONG";
}

inline Json FigureJson(const BenchFigure& figure) {
  return {{"who", figure.who}, {"wall_s", figure.wall_seconds}, {"cpu_s", figure.cpu_seconds}};
}

inline Json RowJson(const BenchRow& row) {
  Json peers = Json::array();
  for (const BenchFigure& peer : row.peers) peers.push_back(FigureJson(peer));
  return {{"section", row.section},       {"name", row.name},     {"dtype", row.dtype},        {"isa", row.isa},
          {"threads", row.threads},       {"rounds", row.rounds}, {"unit", row.unit},          {"tokens", row.tokens},
          {"right", row.right},           {"amount", row.amount}, {"limited", row.limited},    {"limit", row.limit},
          {"ours", FigureJson(row.ours)}, {"peers", peers},       {"of_limit", row.of_limit()}};
}

inline BenchRow RowOf(const Json& json) {
  const auto figure = [](const Json& from) { return BenchFigure{from.at("who"), from.at("wall_s"), from.at("cpu_s")}; };
  BenchRow row = {.section = json.at("section"),
                  .name = json.at("name"),
                  .dtype = json.at("dtype"),
                  .isa = json.at("isa"),
                  .threads = json.at("threads"),
                  .rounds = json.at("rounds"),
                  .unit = json.at("unit"),
                  .tokens = json.at("tokens"),
                  .right = json.at("right"),
                  .amount = json.at("amount"),
                  .limited = json.at("limited"),
                  .limit = json.at("limit"),
                  .ours = figure(json.at("ours"))};
  for (const Json& peer : json.at("peers")) row.peers.push_back(figure(peer));
  return row;
}

struct BenchResults {
  std::map<std::string, std::string> machines;  // the limits, in words, by instruction set
  std::vector<BenchRow> rows;
};

// Of earlier runs; empty when the file is missing or of another shape.
inline BenchResults ReadBenchResults(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  BenchResults results;
  try {
    const auto json = ParseJson(text.str());
    if (json.ok()) {
      for (const Json& row : json->at("rows")) results.rows.push_back(RowOf(row));
      results.machines = json->at("machines").get<std::map<std::string, std::string>>();
    }
  } catch (const Json::exception&) {
    results = {};
  }
  return results;
}

// New rows replace those of the same cases; sorted in the order of `sections`, shorter cases first.
inline std::vector<BenchRow> MergeBenchRows(std::vector<BenchRow> old, const std::vector<BenchRow>& fresh,
                                            const std::vector<std::string>& sections) {
  for (const BenchRow& row : fresh) {
    std::erase_if(old, [&](const BenchRow& other) { return other.IsSameCase(row); });
    old.push_back(row);
  }
  std::stable_sort(old.begin(), old.end(), [&](const BenchRow& a, const BenchRow& b) {
    const auto key = [&](const BenchRow& row) {
      return std::tuple(std::find(sections.begin(), sections.end(), row.section), row.isa == "avx2", row.dtype,
                        row.threads, row.tokens);
    };
    return key(a) < key(b);
  });
  return old;
}

// One table per section; a column for each peer with a result in it.
inline std::string SectionTable(const std::vector<BenchRow>& rows, const std::string& section) {
  std::vector<std::string> peers;
  std::string body;
  for (const BenchRow& row : rows) {
    if (row.section != section) continue;
    for (const BenchFigure& peer : row.peers) {
      if (peer.wall_seconds > 0 && std::find(peers.begin(), peers.end(), peer.who) == peers.end())
        peers.push_back(peer.who);
    }
  }
  for (const BenchRow& row : rows) {
    if (row.section != section) continue;
    const auto rate = [&](double seconds) { return row.amount / seconds * row.scale(); };
    absl::StrAppendFormat(&body, "| %s%s | %s | %s | %d | %.4g %s | %s | %.4g |", row.name, row.right ? "" : " (WRONG)",
                          row.dtype, row.isa, row.threads, rate(row.ours.wall_seconds), row.unit,
                          row.limit > 0 ? absl::StrFormat("%.2f", row.of_limit()) : "", row.ours.wall_seconds);
    for (const std::string& who : peers) {
      const auto peer = std::find_if(row.peers.begin(), row.peers.end(), [&](const BenchFigure& figure) {
        return figure.who == who && figure.wall_seconds > 0;
      });
      if (peer == row.peers.end()) {
        body += " | |";
        continue;
      }
      absl::StrAppendFormat(&body, " %.4g | %.2f", rate(peer->wall_seconds), WallRatio(row, *peer));
      body += peer->cpu_seconds > 0 ? absl::StrFormat(" (%.2f) |", CpuRatio(row, *peer)) : " |";
    }
    body += "\n";
  }
  if (body.empty()) return "";
  std::string head = "| case | format | set | threads | ours | of peak | wall s |",
              rule = "| --- | --- | --- | --- | --- | --- | --- |";
  for (const std::string& who : peers) {
    absl::StrAppend(&head, " ", who, " | times |");
    rule += " --- | --- |";
  }
  return absl::StrCat("\n## ", section, "\n\n", head, "\n", rule, "\n", body);
}

}  // namespace varifocal
