#include "server/rpc/access.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr FileKind kTokenFile = {"a file of tokens", 1 << 20, FileUse::kOwn};

constexpr MethodRole kMethods[] = {
    {"/grpc.health.v1.Health/Check", Role::kAnyone},
    {"/grpc.health.v1.Health/Watch", Role::kAnyone},
    {"/varifocal.v1.Evaluation/CancelJob", Role::kSubmitter},
    {"/varifocal.v1.Evaluation/DeleteJob", Role::kAdmin},
    {"/varifocal.v1.Evaluation/GetJob", Role::kViewer},
    {"/varifocal.v1.Evaluation/ImportScores", Role::kSubmitter},
    {"/varifocal.v1.Evaluation/ListJobs", Role::kViewer},
    {"/varifocal.v1.Evaluation/ListSuites", Role::kViewer},
    {"/varifocal.v1.Evaluation/ListTasks", Role::kViewer},
    {"/varifocal.v1.Evaluation/ResumeJob", Role::kSubmitter},
    {"/varifocal.v1.Evaluation/SubmitJob", Role::kSubmitter},
    {"/varifocal.v1.Evaluation/WatchJob", Role::kViewer},
    {"/varifocal.v1.Inference/ComputeLogLikelihoods", Role::kSubmitter},
    {"/varifocal.v1.Inference/Detokenize", Role::kSubmitter},
    {"/varifocal.v1.Inference/Generate", Role::kSubmitter},
    {"/varifocal.v1.Inference/GetModel", Role::kViewer},
    {"/varifocal.v1.Inference/ListModels", Role::kViewer},
    {"/varifocal.v1.Inference/LoadModel", Role::kAdmin},
    {"/varifocal.v1.Inference/Tokenize", Role::kSubmitter},
    {"/varifocal.v1.Inference/UnloadModel", Role::kAdmin},
};

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  if (name == "viewer") return Role::kViewer;
  if (name == "submitter") return Role::kSubmitter;
  if (name == "admin") return Role::kAdmin;
  return InvalidArgument("the role \"", name, "\" is not viewer, submitter or admin");
}

absl::Status AtLine(int number, absl::string_view what) { return InvalidArgument("line ", number, ": ", what); }

}  // namespace

absl::Span<const MethodRole> MethodRoles() { return kMethods; }

namespace {

const MethodRole* FindMethod(absl::string_view method) {
  for (const MethodRole& row : kMethods) {
    if (method == row.method) return &row;
  }
  return nullptr;
}

}  // namespace

bool IsMethod(absl::string_view method) { return FindMethod(method) != nullptr; }

Role LeastRole(absl::string_view method) {
  const MethodRole* row = FindMethod(method);
  return row == nullptr ? Role::kAdmin : row->least;
}

absl::StatusOr<std::shared_ptr<const Tokens>> Tokens::Read(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kTokenFile);
  if (!text.ok()) return WithReason(text.status(), ErrorReason::kBadCredentials);
  absl::StatusOr<std::shared_ptr<const Tokens>> tokens = Parse(*text);
  if (!tokens.ok()) return WithReason(Annotate(tokens.status(), path), ErrorReason::kBadCredentials);
  return tokens;
}

absl::StatusOr<std::shared_ptr<const Tokens>> Tokens::Parse(absl::string_view text) {
  auto tokens = std::make_shared<Tokens>();
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (words.size() != 3 && words.size() != 4)
      return AtLine(number, absl::StrCat("has ", words.size(), " words, not ROLE SHA256 NAME [EXPIRY]"));
    const absl::StatusOr<Role> role = ParseRole(words[0]);
    if (!role.ok()) return AtLine(number, role.status().message());
    // The message does not quote the word: it may be the token itself.
    if (!IsSha256Hex(words[1])) return AtLine(number, "the second word is not a SHA-256 of 64 hexadecimal digits");
    Holder holder = {*role, words[2]};
    if (words.size() == 4) {
      const std::optional<int64_t> expiry_us = ParseUtc(words[3]);
      if (!expiry_us) return AtLine(number, "the fourth word is not a time such as 2027-01-31T12:00:00Z");
      holder.expiry_us = *expiry_us;
    }
    if (!tokens->holders_.emplace(words[1], std::move(holder)).second) return AtLine(number, "duplicate SHA-256");
  }
  if (tokens->holders_.empty()) return InvalidArgument("has no token: every call would be refused");
  return std::shared_ptr<const Tokens>(std::move(tokens));
}

const Tokens::Holder* Tokens::Find(absl::string_view authorization) const {
  if (!absl::ConsumePrefix(&authorization, "Bearer ")) return nullptr;
  // Digests are compared, so timing reveals nothing about a token.
  const auto holder = holders_.find(Sha256Hex(authorization));
  return holder == holders_.end() ? nullptr : &holder->second;
}

std::string TokenName(const TokenSource& source, const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  const std::shared_ptr<const Tokens> tokens = source.Get();
  const auto field = metadata.find("authorization");
  if (tokens == nullptr || field == metadata.end()) return "";
  const Tokens::Holder* holder = tokens->Find(absl::string_view(field->second.data(), field->second.size()));
  return holder == nullptr ? "" : holder->name;
}

absl::Status AuthorizeCall(const TokenSource& source, absl::string_view method,
                           const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  const std::shared_ptr<const Tokens> tokens = source.Get();
  if (tokens == nullptr) return absl::OkStatus();
  const auto [first, last] = metadata.equal_range("authorization");
  const bool is_one = first != last && std::next(first) == last;
  return tokens->Authorize(method,
                           is_one ? absl::string_view(first->second.data(), first->second.size()) : absl::string_view(),
                           source.WallMicros());
}

absl::Status Tokens::Authorize(absl::string_view method, absl::string_view authorization, int64_t wall_us) const {
  const Role least = LeastRole(method);
  if (least == Role::kAnyone) return absl::OkStatus();
  const Holder* const holder = Find(authorization);
  if (holder == nullptr)
    return absl::UnauthenticatedError("the call has no valid token; name its file with --token-file");
  if (wall_us >= holder->expiry_us) {
    return WithReason(absl::UnauthenticatedError(absl::StrCat("the token expired at ", FormatUtc(holder->expiry_us))),
                      ErrorReason::kTokenExpired);
  }
  if (holder->role >= least) return absl::OkStatus();
  return PermissionDenied("the token's role does not allow this call");
}

}  // namespace varifocal
