// The daemon with TLS: certificates and tokens, each method with each credential. Method: a real server on a loopback
// socket with a fake engine; certificates are made by the openssl program.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "server/listener_watchdog.h"
#include "server/rpc/limits.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/connected_channel.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

class ServerTlsTest : public ServerTest {
 protected:
  void SetUp() override {
    for (const char* name : {"ca", "other"}) {
      Run(absl::StrCat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=", name,
                       " -keyout ", File(name, "key"), " -out ", File(name, "pem")));
    }
    WriteFile(directory_.File("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    for (const char* name : {"server", "client"}) Issue(name, "ca", "");
    Issue("stranger", "other", "");
    WriteFile(directory_.File("tokens"),
              absl::StrCat("viewer ", Sha256Hex("v"), " vera\nsubmitter ", Sha256Hex("s"), " sam\nadmin ",
                           Sha256Hex("a"), " anna\nadmin ", Sha256Hex("expired"), " eve 2020-01-01T00:00:00Z\n"));
    options_.database_path = directory_.File("results.db");
    options_.models = {{"a", "fake"}};
    options_.listen_address = "127.0.0.1:0";
    options_.model_factory = MakeFakeModelFactory(control_);
    options_.protection = {.tls_certificate = File("server", "pem"), .tls_key = File("server", "key")};
  }

  std::string File(const std::string& name, const char* kind) const {
    return directory_.File(absl::StrCat(name, ".", kind));
  }
  // A certificate NAME of the authority, valid for 36,500 days unless `validity` is given.
  void Issue(const std::string& name, const std::string& authority, const std::string& validity) const {
    Run(absl::StrCat("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=", name, " -keyout ",
                     File(name, "key"), " -out ", File(name, "csr")));
    if (validity.empty()) {
      return Run(absl::StrCat("x509 -req -days 36500 -CAcreateserial -in ", File(name, "csr"), " -CA ",
                              File(authority, "pem"), " -CAkey ", File(authority, "key"), " -extfile ",
                              directory_.File("names"), " -out ", File(name, "pem")));
    }
    // Only `openssl ca` takes dates here.
    WriteFile(directory_.File("ca.conf"),
              absl::StrCat("[ca]\ndefault_ca=one\n[one]\ndatabase=", directory_.File("index"),
                           "\nserial=", directory_.File("serial"), "\nnew_certs_dir=", directory_.File(""),
                           "\ndefault_md=sha256\npolicy=any\n[any]\n", "commonName=supplied\n"));
    WriteFile(directory_.File("index"), "");
    WriteFile(directory_.File("serial"), "1000\n");
    Run(absl::StrCat("ca -batch -notext -config ", directory_.File("ca.conf"), " -cert ", File(authority, "pem"),
                     " -keyfile ", File(authority, "key"), " ", validity, " -extfile ", directory_.File("names"),
                     " -in ", File(name, "csr"), " -out ", File(name, "pem")));
  }
  // Certificate and key of `from` in the place of those of `to`, as a renewal does: first the key, then the certificate.
  void Replace(const std::string& from, const std::string& to) const {
    for (const char* kind : {"key", "pem"}) {
      std::filesystem::copy_file(File(from, kind), File(to, kind) + ".new");
      std::filesystem::rename(File(to, kind) + ".new", File(to, kind));
    }
  }
  // Whether it is so within a minute; files are read every second.
  static bool Eventually(const std::function<bool()>& is_so) {
    for (int i = 0; i < 600; ++i) {
      if (is_so()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  static void Run(const std::string& arguments) {
    ASSERT_EQ(std::system(absl::StrCat("openssl ", arguments, " 2>/dev/null").c_str()), 0) << arguments;
  }
  void Start() { ASSIGN_OR_FAIL(server_, Server::Start(options_)); }

  // The status of a request of these bytes, on a connection of its own. One that failed is tried again: see
  // tests/support/connected_channel.h.
  grpc::Status Call(const std::string& method, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    const std::string& token = "", const std::string& request = "") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    grpc::Status status;
    for (int i = 0; i < 5; ++i) {
      status = CallOn(grpc::CreateCustomChannel(server_->address(), credentials, arguments), method, token, request);
      if (status.error_code() != grpc::UNAVAILABLE) break;
    }
    return status;
  }
  static grpc::Status CallOn(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                             const std::string& token = "", const std::string& request = "") {
    return AskBytes(channel, method, request, token);
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

// Every method of the services that a server of this process has, from their descriptors: a new one is in this test.
std::vector<std::string> MethodsServed() {
  std::vector<std::string> methods = {"/grpc.health.v1.Health/Check"};
  for (const char* name : {v1::Inference::service_full_name(), v1::Evaluation::service_full_name()}) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i)
      methods.push_back(absl::StrCat("/", name, "/", service->method(i)->name()));
  }
  return methods;
}

// The request is empty, or bytes that are no message: who is refused gets the same answer for both, so the role is looked
// at before the request is read.
TEST_F(ServerTlsTest, EveryMethodAsksForItsRoleBeforeItReadsTheRequest) {
  options_.protection.token_file = directory_.File("tokens");
  Start();
  const std::map<std::string, Role> tokens = {{"", Role::kAnyone},        {"wrong", Role::kAnyone},
                                              {"expired", Role::kAnyone}, {"v", Role::kViewer},
                                              {"s", Role::kSubmitter},    {"a", Role::kAdmin}};
  const std::vector<std::string> methods = MethodsServed();
  EXPECT_GE(methods.size(), 1u + 16u);
  for (const std::string& method : methods) {
    const Role least = LeastRole(method);
    for (const auto& [token, role] : tokens) {
      for (const char* request : {"", "\xff\xff"}) {
        const grpc::Status status = Call(method, Trusting("ca"), token, request);
        const bool is_refused =
            status.error_code() == grpc::UNAUTHENTICATED || status.error_code() == grpc::PERMISSION_DENIED;
        EXPECT_EQ(is_refused, role < least) << method << " as \"" << token << "\": " << status.error_message();
        if (is_refused) {
          EXPECT_EQ(status.error_code(), role == Role::kAnyone ? grpc::UNAUTHENTICATED : grpc::PERMISSION_DENIED);
          EXPECT_EQ(ReasonIn(status) == "TOKEN_EXPIRED", token == "expired") << status.error_message();
        }
      }
    }
  }
}

// One frame with this field aborts a gRPC 1.51 server that has an AuthMetadataProcessor. Method: HTTP/2 by hand, since a
// client of the library cannot send it.
TEST_F(ServerTlsTest, AFieldThatAbortsGrpcsOwnHookDoesNotHere) {
  options_.protection = {.token_file = directory_.File("tokens")};
  Start();
  const auto field = [](const std::string& name, const std::string& value) {  // a literal without indexing
    return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                        std::string(1, static_cast<char>(value.size())), value);
  };
  const auto frame = [](char type, char flags, char stream, const std::string& payload) {
    std::string head(9, '\0');
    head[2] = payload.size();
    head[3] = type;
    head[4] = flags;
    head[8] = stream;
    return head + payload;
  };
  constexpr char kSettings = 4, kHeaders = 1, kEndStreamAndHeaders = 5;
  const std::string fields = field(":method", "POST") + field(":scheme", "http") + field(":path", "/a/b") +
                             field("te", "trailers") + field("grpclb_client_stats", "x");
  const std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "") +
                            frame(kHeaders, kEndStreamAndHeaders, 1, fields);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::stoi(server_->address().substr(server_->address().rfind(':') + 1)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(write(fd, bytes.data(), bytes.size()), std::ssize(bytes));
  // The answer to the call: the server has looked at all of it.
  bool is_answered = false;
  for (char answer[4096]; !is_answered;) {
    const ssize_t count = read(fd, answer, sizeof(answer));
    ASSERT_GT(count, 0);
    is_answered = std::string(answer, count).find("grpc-status") != std::string::npos;
  }
  close(fd);
  EXPECT_TRUE(Call(kListModels, grpc::InsecureChannelCredentials(), "v").ok());
}

// A method that does not exist is so for everyone, and nothing runs.
TEST_F(ServerTlsTest, UnknownMethodsAndReflection) {
  options_.protection.token_file = directory_.File("tokens");
  Start();
  for (const char* token : {"", "v", "a"}) {
    EXPECT_EQ(Call("/varifocal.v1.Inference/NoSuchMethod", Trusting("ca"), token).error_code(), grpc::UNIMPLEMENTED);
    EXPECT_EQ(
        Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Trusting("ca"), token).error_code(),
        grpc::UNIMPLEMENTED);
  }
  options_.reflection = true;
  EXPECT_TRUE(HasReason(Server::Start(options_).status(), ErrorReason::kBadCredentials));
}

// A token file without TLS, where no other user can read the traffic.
TEST_F(ServerTlsTest, TokensWithoutTlsOnThisMachine) {
  options_.protection = {.token_file = directory_.File("tokens")};
  for (const std::string& listen : {std::string("127.0.0.1:0"), absl::StrCat("unix:", directory_.File("v.sock"))}) {
    options_.listen_address = listen;
    Start();
    EXPECT_EQ(Call(kListModels, grpc::InsecureChannelCredentials()).error_code(), grpc::UNAUTHENTICATED) << listen;
    const grpc::Status allowed = Call(kListModels, grpc::InsecureChannelCredentials(), "v");
    EXPECT_TRUE(allowed.ok()) << listen << ": " << allowed.error_message();
    EXPECT_EQ(Call("/varifocal.v1.Inference/LoadModel", grpc::InsecureChannelCredentials(), "s").error_code(),
              grpc::PERMISSION_DENIED);
    server_ = nullptr;
  }
}

// Behind a proxy all callers have one address; those with tokens are distinguished by them.
TEST_F(ServerTlsTest, CallsOfOneTokenLeaveRoomForAnother) {
  options_.protection = {.token_file = directory_.File("tokens")};
  Start();
  control_->Hold();
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  };
  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs;  // a connection each for 500: one has 1,000 streams
  std::vector<std::unique_ptr<Call>> calls;
  const auto generate = [&] {
    if (calls.size() % 500 == 0) stubs.push_back(v1::Inference::NewStub(ConnectedChannel(server_->address())));
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.context.AddMetadata("authorization", "Bearer s");
    call.reader = stubs.back()->Generate(&call.context, SmallGenerate());
  };
  const auto stub = v1::Inference::NewStub(ConnectedChannel(server_->address()));
  const auto tokenize = [&](const char* token) {
    v1::TokenizeRequest request;
    request.set_model("models/a");
    request.set_text("x");
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    return stub->Tokenize(&context, request, &response);
  };
  while (calls.size() < kAdmittedCallsOfPeerMax - 1) generate();
  grpc::Status refused;
  while ((refused = tokenize("s")).ok()) generate();
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_CALLS");
  EXPECT_THAT(refused.error_message(), Message("2049"));
  const grpc::Status other = tokenize("a");
  EXPECT_TRUE(other.ok()) << other.error_message();
  for (const auto& call : calls) call->context.TryCancel();
  control_->Release();
}

// ---- Files that change while the server runs ----

TEST_F(ServerTlsTest, ARenewedCertificateIsServedWithoutARestart) {
  Start();
  EXPECT_EQ(Call(kListModels, Trusting("other")).error_code(), grpc::UNAVAILABLE);
  const auto channel = ConnectedChannel(server_->address(), {}, Trusting("ca"));
  EXPECT_TRUE(CallOn(channel, kListModels).ok());
  Replace("stranger", "server");  // of the authority "other"
  EXPECT_TRUE(Eventually([&] { return Call(kListModels, Trusting("other")).ok(); }));
  EXPECT_EQ(Call(kListModels, Trusting("ca")).error_code(), grpc::UNAVAILABLE) << "the one before is gone";
  EXPECT_TRUE(CallOn(channel, kListModels).ok()) << "an open connection is not closed";
}

TEST_F(ServerTlsTest, HalfOfARotationIsNotServed) {
  Start();
  const auto copy = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(File("client", "pem"), File("server", "pem"), copy);  // the key is still the server's
  const auto expect_old = [&](const char* what) {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));  // longer than a period of the poll in all
      EXPECT_TRUE(Call(kListModels, Trusting("ca")).ok()) << what;
    }
  };
  expect_old("another certificate without its key");
  WriteFile(File("server", "pem"), "");
  expect_old("an empty file");
  std::filesystem::remove(File("server", "key"));
  expect_old("no key");
  Replace("stranger", "server");
  EXPECT_TRUE(Eventually([&] { return Call(kListModels, Trusting("other")).ok(); }));
}

TEST_F(ServerTlsTest, AnAuthorityOfClientsCanBeReplaced) {
  options_.protection.tls_client_ca = File("ca", "pem");
  Start();
  EXPECT_TRUE(Call(kListModels, Trusting("ca", "client")).ok());
  std::filesystem::copy_file(File("other", "pem"), File("ca", "pem.new"));
  const std::string authority = ReadFile(File("ca", "pem"));
  const auto client = Trusting("ca", "client");
  const auto stranger = Trusting("ca", "stranger");
  std::filesystem::rename(File("ca", "pem.new"), File("ca", "pem"));
  EXPECT_TRUE(Eventually([&] { return Call(kListModels, stranger).ok(); }));
  EXPECT_EQ(Call(kListModels, client).error_code(), grpc::UNAVAILABLE) << "certificates of the old one are revoked";
}

TEST_F(ServerTlsTest, TokensAreTakenAndRevokedWithoutARestart) {
  options_.protection.token_file = directory_.File("tokens");
  Start();
  const std::string before = ReadFile(directory_.File("tokens"));
  const auto code = [&](const char* token) { return Call(kListModels, Trusting("ca"), token).error_code(); };
  ASSERT_EQ(code("v"), grpc::OK);
  ASSERT_EQ(code("new"), grpc::UNAUTHENTICATED);
  WriteFile(directory_.File("tokens"), absl::StrCat("viewer ", Sha256Hex("new"), " nora\n"));
  EXPECT_TRUE(Eventually([&] { return code("new") == grpc::OK; }));
  EXPECT_EQ(code("v"), grpc::UNAUTHENTICATED);
  // A file that cannot be used does not change who may call.
  WriteFile(directory_.File("tokens"), "viewer what\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(code("new"), grpc::OK);
  WriteFile(directory_.File("tokens"), before);
  EXPECT_TRUE(Eventually([&] { return code("v") == grpc::OK; }));
}

// ---- Certificates that a peer must not accept ----

TEST_F(ServerTlsTest, CertificatesThatAreRefused) {
  options_.protection.tls_client_ca = File("ca", "pem");
  Issue("expired", "ca", "-startdate 20200101000000Z -enddate 20210101000000Z");
  Issue("future", "ca", "-startdate 20900101000000Z -enddate 20910101000000Z");
  Run(absl::StrCat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=self -keyout ",
                   File("self", "key"), " -out ", File("self", "pem")));
  // Below a certificate that is no authority.
  Issue("child", "client", "");
  Start();
  struct Case {
    const char* what;
    const char* client;
    bool is_served;
  };
  const Case cases[] = {{"of the authority", "client", true},
                        {"none", "", false},
                        {"of another authority", "stranger", false},
                        {"expired", "expired", false},
                        {"not valid yet", "future", false},
                        {"self-signed", "self", false},
                        {"of a certificate that is no authority", "child", false}};
  for (const Case& c : cases)
    EXPECT_EQ(Call(kListModels, Trusting("ca", c.client)).ok(), c.is_served) << "a client's certificate: " << c.what;
  // What clients refuse, with gRPC's client as `varifocal` uses it.
  const Case servers[] = {{"expired", "expired", false},
                          {"not valid yet", "future", false},
                          {"self-signed", "self", false},
                          {"of the authority", "client", true}};
  options_.protection.tls_client_ca.clear();
  for (const Case& c : servers) {
    options_.protection.tls_certificate = File(c.client, "pem");
    options_.protection.tls_key = File(c.client, "key");
    server_ = nullptr;
    Start();
    EXPECT_EQ(Call(kListModels, Trusting("ca")).ok(), c.is_served) << "the server's certificate: " << c.what;
  }
  // Another name than the one that was connected to.
  WriteFile(directory_.File("names"), "subjectAltName=DNS:elsewhere.example\n");
  Issue("elsewhere", "ca", "");
  options_.protection.tls_certificate = File("elsewhere", "pem");
  options_.protection.tls_key = File("elsewhere", "key");
  server_ = nullptr;
  Start();
  EXPECT_FALSE(Call(kListModels, Trusting("ca")).ok()) << "a certificate of another host";
}

TEST_F(ServerTlsTest, FlagsThatDoNotFitAreRefused) {
  WriteFile(directory_.File("text"), "no PEM");
  struct Case {
    ServerProtection protection;
    std::vector<std::string> words;  // contained in the message
  };
  const std::string certificate = File("server", "pem"), key = File("server", "key");
  const Case cases[] = {
      {{.tls_certificate = certificate}, {"--tls-cert", "--tls-key"}},
      {{.tls_key = key}, {"--tls-cert", "--tls-key"}},
      {{.tls_client_ca = certificate}, {"--tls-cert", "--tls-key"}},
      {{.tls_certificate = directory_.File("absent"), .tls_key = key}, {"absent"}},
      {{.tls_certificate = directory_.File("text"), .tls_key = key}, {"CERTIFICATE", "PEM"}},
      {{.tls_certificate = certificate, .tls_key = certificate}, {"PRIVATE", "KEY", "PEM"}},
      {{.tls_certificate = certificate, .tls_key = File("client", "key")}, {}},
      {{.tls_certificate = certificate, .tls_key = key, .token_file = directory_.File("text")}, {"1"}},
  };
  for (const Case& c : cases) {
    options_.protection = c.protection;
    const auto server = Server::Start(options_);
    ASSERT_FALSE(server.ok()) << &c - cases;
    EXPECT_THAT(server.status().message(), MessageMatcher(c.words));
  }
}

}  // namespace
}  // namespace varifocal
