// Access control: the whole matrix of methods and roles, and invalid token files.
#include "server/rpc/access.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

std::set<std::string> MethodsOfServices() {
  std::set<std::string> methods;
  for (const auto* service : {v1::GenerateRequest::descriptor()->file()->service(0),
                              v1::SubmitJobRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i)
      methods.insert(absl::StrCat("/", service->full_name(), "/", service->method(i)->name()));
  }
  return methods;
}

std::string Line(const char* role, const std::string& token) {
  return absl::StrCat(role, " ", Sha256Hex(token), " name-of-", token, "\n");
}

TEST(AccessTest, EveryMethodHasARow) {
  std::set<std::string> listed;
  for (const MethodRole& row : MethodRoles()) {
    EXPECT_TRUE(listed.insert(row.method).second) << row.method;
    const bool is_health = std::string(row.method).rfind("/grpc.health.v1.", 0) == 0;
    EXPECT_EQ(row.least == Role::kAnyone, is_health) << row.method;
  }
  for (const std::string& method : MethodsOfServices()) EXPECT_EQ(listed.count(method), 1u) << method;
  EXPECT_EQ(listed.size(), MethodsOfServices().size() + 2);
}

// The expected roles, stated independently: reading needs viewer, computing needs submitter, loading needs admin.
TEST(AccessTest, MethodsTimesRolesTimesCredentials) {
  constexpr int64_t kExpiryUs = 1'800'000'000'000'000;
  const auto expiring = [](const char* role, const std::string& token) {
    return absl::StrCat(role, " ", Sha256Hex(token), " name-of-", token, " 2027-01-15T08:00:00Z\n");
  };
  const auto tokens = Tokens::Parse(Line("viewer", "v") + Line("submitter", "s") + Line("admin", "a") +
                                    expiring("viewer", "ve") + expiring("submitter", "se") + expiring("admin", "ae"));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::set<std::string> methods = MethodsOfServices();
  for (const char* other :
       {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/varifocal.v1.Inference/New", ""}) {
    methods.insert(other);
  }
  const std::set<std::string> looks = {"ListModels", "GetModel",   "GetJob",   "ListJobs",
                                       "WatchJob",   "ListSuites", "ListTasks"};
  const std::set<std::string> computes = {"Tokenize",  "Detokenize", "Generate",  "ComputeLogLikelihoods",
                                          "SubmitJob", "CancelJob",  "ResumeJob", "ImportScores"};
  int allowed_count = 0;
  for (const std::string& method : methods) {
    const std::string name = method.substr(method.rfind('/') + 1);
    const bool is_health = method.rfind("/grpc.health", 0) == 0;
    const int least = is_health ? 0 : looks.count(name) > 0 ? 1 : computes.count(name) > 0 ? 2 : 3;
    const std::map<std::string, int> credentials = {
        {"", 0},          {"Bearer ", 0},   {"Bearer x", 0},  {"v", 0},
        {"Basic v", 0},   {"bearer v", 0},  {"Bearer  v", 0}, {"Bearer v ", 0},
        {"Bearer v", 1},  {"Bearer s", 2},  {"Bearer a", 3},  {absl::StrCat("Bearer ", Sha256Hex("a")), 0},
        {"Bearer ve", 1}, {"Bearer se", 2}, {"Bearer ae", 3}};
    for (const auto& [credential, role_by_line] : credentials) {
      for (const int64_t now_us : {kExpiryUs - 1, kExpiryUs, kExpiryUs + 1}) {
        const bool is_expired = role_by_line > 0 && credential.back() == 'e' && now_us >= kExpiryUs;
        const int role = is_expired ? 0 : role_by_line;
        const absl::Status status = (*tokens)->Authorize(method, credential, now_us);
        const absl::StatusCode wanted = role >= least ? absl::StatusCode::kOk
                                        : role == 0   ? absl::StatusCode::kUnauthenticated
                                                      : absl::StatusCode::kPermissionDenied;
        EXPECT_EQ(status.code(), wanted) << method << " with \"" << credential << "\" at " << now_us << ": " << status;
        EXPECT_EQ(HasReason(status, ErrorReason::kTokenExpired), is_expired && least > 0) << status;
        allowed_count += status.ok();
      }
    }
  }
  EXPECT_EQ(allowed_count, 2 * 15 * 3 + (7 * 3 + 8 * 2 + 6 * 1) * (3 + 1));
}

TEST(AccessTest, ATokenHasItsName) {
  const auto tokens = *Tokens::Parse(
      absl::StrCat("# people\n\n  ", Line("admin", "a"), "viewer\t", Sha256Hex("v"), "\tanna # left\r\n"));
  ASSERT_NE(tokens->Find("Bearer a"), nullptr);
  EXPECT_EQ(tokens->Find("Bearer a")->name, "name-of-a");
  EXPECT_EQ(tokens->Find("Bearer v")->name, "anna");
  EXPECT_EQ(tokens->Find("Bearer w"), nullptr);
}

TEST(AccessTest, BadFilesOfTokensAreRefused) {
  const std::string hash = Sha256Hex("t");
  const std::pair<std::string, const char*> cases[] = {
      {"", "has no token"},
      {"# nobody\n", "has no token"},
      {absl::StrCat("root ", hash, " x"), "line 1: the role \"root\" is not viewer, submitter or admin"},
      {absl::StrCat("\nadmin ", hash), "line 2: has 2 words, not ROLE SHA256 NAME [EXPIRY]"},
      {absl::StrCat("admin ", hash, " x 2027-01-31T12:00:00Z y"), "line 1: has 5 words"},
      {absl::StrCat("admin ", hash, " x tomorrow"), "line 1: the fourth word is not a time such as"},
      {absl::StrCat("admin ", hash, " x 2027-02-29T12:00:00Z"), "line 1: the fourth word is not a time such as"},
      {"admin my-secret-token x", "line 1: the second word is not a SHA-256"},
      {absl::StrCat("admin ", hash, " x\nviewer ", hash, " y"), "line 2: duplicate SHA-256"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Tokens::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("my-secret"))) << "a token is not repeated";
  }
  EXPECT_EQ(Tokens::Read(TemporaryDirectory().File("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace varifocal
