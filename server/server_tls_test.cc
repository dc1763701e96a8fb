// The daemon with TLS: certificates and tokens, each method with each credential. Method: a real server on a loopback
// socket with a fake engine; certificates are made by the openssl program.
#include <cstdlib>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "server/listener_watchdog.h"
#include "tests/fakes/server_fixture.h"

namespace varifocal {
namespace {

using testing_support::ReadFile;

class ServerTlsTest : public ServerTest {
 protected:
  void SetUp() override {
    for (const char* name : {"ca", "other"}) {
      Run(absl::StrCat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=", name,
                       " -keyout ", File(name, "key"), " -out ", File(name, "pem")));
    }
    testing_support::WriteFile(directory_.File("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    for (const char* name : {"server", "client", "stranger"}) {
      Run(absl::StrCat("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=", name, " -keyout ",
                       File(name, "key"), " -out ", File(name, "csr")));
      const char* const authority = std::string(name) == "stranger" ? "other" : "ca";
      Run(absl::StrCat("x509 -req -days 36500 -CAcreateserial -in ", File(name, "csr"), " -CA ", File(authority, "pem"),
                       " -CAkey ", File(authority, "key"), " -extfile ", directory_.File("names"), " -out ",
                       File(name, "pem")));
    }
    testing_support::WriteFile(directory_.File("tokens"),
                               absl::StrCat("viewer ", Sha256Hex("v"), " vera\nsubmitter ", Sha256Hex("s"),
                                            " sam\nadmin ", Sha256Hex("a"), " anna\n"));
    options_.database_path = directory_.File("results.db");
    options_.models = {{"a", "fake"}};
    options_.listen_address = "127.0.0.1:0";
    options_.model_factory = MakeFakeModelFactory(control_);
    options_.protection = {.tls_certificate = File("server", "pem"), .tls_key = File("server", "key")};
  }

  std::string File(const std::string& name, const char* kind) const {
    return directory_.File(absl::StrCat(name, ".", kind));
  }
  static void Run(const std::string& arguments) {
    ASSERT_EQ(std::system(absl::StrCat("openssl ", arguments, " 2>/dev/null").c_str()), 0) << arguments;
  }
  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // The status of an empty request of the method.
  grpc::Status Call(const std::string& method, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    const std::string& token = "") {
    grpc::GenericStub stub(grpc::CreateChannel(server_->address(), credentials));
    grpc::ByteBuffer in, out;
    grpc::Slice nothing;
    in = grpc::ByteBuffer(&nothing, 1);
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &in, &out,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  std::shared_ptr<grpc::ChannelCredentials> Trusting(const std::string& authority, const std::string& own = "") {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(File(authority, "pem"));
    if (!own.empty()) {
      options.pem_cert_chain = ReadFile(File(own, "pem"));
      options.pem_private_key = ReadFile(File(own, "key"));
    }
    return grpc::SslCredentials(options);
  }

  static constexpr char kListModels[] = "/varifocal.v1.Inference/ListModels";
};

TEST_F(ServerTlsTest, OnlyWhoTrustsTheAuthorityIsServed) {
  Start();
  EXPECT_TRUE(Call(kListModels, Trusting("ca")).ok());
  EXPECT_EQ(Call(kListModels, Trusting("other")).error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(Call(kListModels, grpc::InsecureChannelCredentials()).error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(ProbeListener(server_->address(), /*has_tls=*/true, 60'000).ok());
}

TEST_F(ServerTlsTest, ACallersCertificateMustBeOfTheAuthority) {
  options_.protection.tls_client_ca = File("ca", "pem");
  Start();
  EXPECT_TRUE(Call(kListModels, Trusting("ca", "client")).ok());
  EXPECT_EQ(Call(kListModels, Trusting("ca", "stranger")).error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(Call(kListModels, Trusting("ca")).error_code(), grpc::UNAVAILABLE);
}

TEST_F(ServerTlsTest, EveryMethodAsksForItsRoleBeforeItReadsTheRequest) {
  options_.protection.token_file = directory_.File("tokens");
  Start();
  const std::map<std::string, Role> tokens = {{"", Role::kAnyone},
                                              {"wrong", Role::kAnyone},
                                              {"v", Role::kViewer},
                                              {"s", Role::kSubmitter},
                                              {"a", Role::kAdmin}};
  int call_count = 0;
  for (const MethodRole& row : MethodRoles()) {
    for (const auto& [token, role] : tokens) {
      if (std::string(row.method) == "/grpc.health.v1.Health/Watch") continue;  // never ends
      const grpc::Status status = Call(row.method, Trusting("ca"), token);
      const bool is_refused =
          status.error_code() == grpc::UNAUTHENTICATED || status.error_code() == grpc::PERMISSION_DENIED;
      EXPECT_EQ(is_refused, role < row.least) << row.method << " as \"" << token << "\": " << status.error_message();
      if (is_refused) {
        EXPECT_EQ(status.error_code(), role == Role::kAnyone ? grpc::UNAUTHENTICATED : grpc::PERMISSION_DENIED);
      }
      ++call_count;
    }
  }
  EXPECT_EQ(call_count, 17 * 5);
  EXPECT_EQ(Call("/varifocal.v1.Inference/NoSuchMethod", Trusting("ca"), "s").error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(ServerTlsTest, FlagsThatDoNotFitAreRefused) {
  testing_support::WriteFile(directory_.File("text"), "no PEM");
  struct Case {
    ServerProtection protection;
    const char* words;
  };
  const std::string certificate = File("server", "pem"), key = File("server", "key");
  const Case cases[] = {
      {{.tls_certificate = certificate}, "--tls-cert and --tls-key must be given together"},
      {{.tls_key = key}, "--tls-cert and --tls-key must be given together"},
      {{.token_file = directory_.File("tokens")}, "need --tls-cert and --tls-key"},
      {{.tls_certificate = directory_.File("absent"), .tls_key = key}, "absent"},
      {{.tls_certificate = directory_.File("text"), .tls_key = key}, "has no CERTIFICATE in PEM"},
      {{.tls_certificate = certificate, .tls_key = certificate}, "has no PRIVATE KEY in PEM"},
      {{.tls_certificate = certificate, .tls_key = File("client", "key")}, "not the certificate's"},
      {{.tls_certificate = certificate, .tls_key = key, .token_file = directory_.File("text")}, "line 1"},
  };
  for (const Case& c : cases) {
    options_.protection = c.protection;
    const auto server = Server::Start(options_);
    ASSERT_FALSE(server.ok()) << c.words;
    EXPECT_THAT(std::string(server.status().message()), testing::HasSubstr(c.words));
  }
}

}  // namespace
}  // namespace varifocal
