// varifocal dashboard: a results database as pages of a browser on this machine.
#include <signal.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/http_server.h"
#include "base/status_macros.h"
#include "client/dashboard/dashboard.h"
#include "client/verb.h"
#include "db/reader.h"

namespace varifocal::client {
namespace {

constexpr int kPort = 50152;

class ServeDashboard : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &database_path_, "PATH", "the results database; a daemon may be writing to it").Required();
    flags.Add("port", &port_, "N", "the port of 127.0.0.1, 0 for a free one (50152 unless given)")
        .AtLeast(0)
        .AtMost(65535);
    flags.Add("listen", &listen_, "HOST:PORT",
              "the same as an address, as of varifocald; HOST is 127.0.0.1 or localhost");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    ASSIGN_OR_RETURN(const int port, Port());
    RETURN_IF_ERROR(db::Reader::Open(database_path_).status());
    // Blocked before the server's threads exist, which inherit it: the signal is taken by sigwait.
    sigset_t stops, before;
    sigemptyset(&stops);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    const absl::Status served = ServeUntil(port, stops, console);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return DoneOr(served);
  }

 private:
  absl::StatusOr<int> Port() const {
    int port = port_.value_or(kPort);
    if (!listen_.has_value()) return port;
    if (port_.has_value()) return UsageError("Give --listen or --port, not both.");
    absl::string_view rest = *listen_;
    if (!absl::ConsumePrefix(&rest, "127.0.0.1:") && !absl::ConsumePrefix(&rest, "localhost:")) {
      return UsageError("--listen=", *listen_,
                        ": the dashboard has no TLS and no tokens, so it serves 127.0.0.1:PORT alone; from "
                        "another machine: ssh -L ",
                        kPort, ":127.0.0.1:", kPort, " HOST.");
    }
    if (absl::SimpleAtoi(rest, &port) && port >= 0 && port <= 65535) return port;
    return UsageError("--listen=", *listen_, ": the port must be a whole number from 0 to 65535.");
  }

  absl::Status ServeUntil(int port, const sigset_t& stops, Console& console) {
    Dashboard dashboard(database_path_);
    ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                     HttpServer::Start(port, [&](const HttpRequest& request) { return dashboard.Answer(request); }));
    console.out << "http://127.0.0.1:" << server->port() << "/\n" << std::flush;
    console.err << "Ctrl-C stops it.\n";
    int signal = 0;
    sigwait(&stops, &signal);
    return absl::OkStatus();
  }

  std::string database_path_;
  std::optional<std::string> listen_;
  std::optional<int64_t> port_;
};

}  // namespace

constinit const Verb kDashboardVerb = {
    .name = "dashboard",
    .group = "Results",
    .summary = "all jobs of a database as pages in a browser, while they run",
    .about =
        R"(Shows every job with its progress, speed, remaining time and errors, the mean scores so far with their
intervals, and the report of each job as `varifocal report` writes it. Pages reload while a job runs. The database
is opened read-only; unfinished cells have no verdict. Served on 127.0.0.1 only, to every user of this machine; from
another machine: ssh -L 50152:127.0.0.1:50152 HOST.)",
    .examples = "varifocal dashboard --db=results.db\nvarifocal dashboard --db=results.db --port=8080",
    .formats = "text",
    .make = &Make<ServeDashboard>,
};

}  // namespace varifocal::client
