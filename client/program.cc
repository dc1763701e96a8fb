#include "client/program.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/code_version.h"
#include "base/reason.h"
#include "base/suggest.h"
#include "client/flags.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

// Where a format is that one verb alone has.
std::string VerbWithFormat(const std::string& format) {
  std::vector<std::string> names;
  for (const Verb* verb : Verbs()) {
    const std::vector<std::string> formats = absl::StrSplit(verb->formats, ' ');
    if (std::find(formats.begin(), formats.end(), format) != formats.end()) names.push_back(verb->name);
  }
  return names.size() == 1 ? absl::StrCat("; `varifocal ", names.front(), "` writes ", format, ".") : "";
}

void AddGlobalFlags(FlagSet& flags, const Verb& verb, GlobalFlags* global, std::string* format, bool* help) {
  flags.Section("For every verb");
  if (verb.daemon == DaemonUse::kAlways) {
    flags.Add("daemon", &global->daemon.address, "ADDRESS",
              "the daemon, HOST:PORT or unix:PATH (default 127.0.0.1:50151)");
  } else if (verb.daemon == DaemonUse::kWhenGiven) {
    flags.Add("daemon", &global->daemon.address, "ADDRESS", "use this daemon; without it only local files are read");
  }
  if (verb.daemon != DaemonUse::kNever) {
    flags
        .Add("connect-timeout", &global->daemon.connect_seconds, "SECONDS",
             "wait so long for a daemon that is starting (5 unless given; 0: one attempt)")
        .AtLeast(0);
    flags.Add("tls-ca", &global->daemon.tls_ca, "FILE", "use TLS, and trust this authority (PEM)");
    flags.Add("tls-cert", &global->daemon.tls_certificate, "FILE",
              "client certificate (PEM), if the daemon requires one");
    flags.Add("tls-key", &global->daemon.tls_key, "FILE", "its private key");
    flags.Add("token-file", &global->daemon.token_file, "FILE",
              "file with the token to send; without TLS to this machine alone");
  }
  flags.Add("format", format, "FORMAT", "how results are printed").Among(absl::StrSplit(verb.formats, ' ')).hint =
      VerbWithFormat;
  flags.Add("help", help, "this page");
}

std::string VerbHelp(const Verb& verb, const FlagSet& flags, const Console& console) {
  std::string text = absl::StrCat(Styled(console, Style::kBold, absl::StrCat("varifocal ", verb.name)), ": ",
                                  verb.summary, ".\n\n  varifocal ", verb.name, flags.Synopsis(), " [flags]\n\n",
                                  verb.about, "\n\n", flags.Help(std::min(console.width, 120)));
  if (*verb.examples != '\0') {
    absl::StrAppend(&text, "\nExamples\n");
    for (absl::string_view line : absl::StrSplit(verb.examples, '\n')) absl::StrAppend(&text, "  ", line, "\n");
  }
  return text;
}

// The directory of the shipped models: the checkout's, or where this program is installed.
std::string ShippedModels() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/varifocal/models";
  return !fs::exists("models/baseline", error) && fs::exists(installed, error) ? installed.string() : "models";
}

std::string ProgramHelp(const Console& console) {
  std::string text = absl::StrCat(
      "varifocal: does this attention help, at which context length, and how sure are we?\n\n"
      "  varifocal VERB [flags]        varifocal VERB --help describes one verb\n");
  size_t width = 0;
  for (const Verb* verb : Verbs()) width = std::max(width, absl::string_view(verb->name).size());
  const char* group = "";
  for (const Verb* verb : Verbs()) {
    if (absl::string_view(group) != verb->group) {
      group = verb->group;
      absl::StrAppend(&text, "\n", Styled(console, Style::kBold, group), "\n");
    }
    std::string name = verb->name;
    name.resize(width + 2, ' ');
    absl::StrAppend(&text, "  ", name, verb->summary, "\n");
  }
  const std::string models = ShippedModels();
  absl::StrAppend(
      &text, "\nQuick start\n  varifocald --db=results.db --model=baseline=", models,
      "/baseline --model=focal=", models,
      "/focal-constant &\n"
      "  varifocal submit quick --models=baseline,focal --wait\n"
      "  varifocal compare --db=results.db --baseline=baseline --candidate=focal\n"
      "  varifocal report --db=results.db --out=report.html\n"
      "\nExit codes: 0 success, 1 failure, 2 invalid usage. Colour only on a terminal, and never with NO_COLOR set.\n");
  return text;
}

ExitCode Complain(Console& console, const absl::Status& status, absl::string_view hint) {
  std::string sentence(status.message());
  // Adds a full stop where a library's status message has none.
  if (!sentence.empty() && sentence.back() != '.' && sentence.back() != '?' && sentence.back() != '!') sentence += '.';
  console.out.flush();
  console.err << "varifocal: " << sentence << "\n";
  // Which verbs and flags ask a daemon is known here, not where the lock is.
  if (HasReason(status, ErrorReason::kDatabaseInUse) && !absl::StrContains(sentence, "daemon")) {
    console.err
        << "If that is a daemon, ask it: `varifocal submit` in the place of `run`, --daemon in the place of --db. "
           "Else give another file.\n";
  }
  const ExitCode code = ExitCodeOf(status);
  if (code == ExitCode::kWrongUsage && !hint.empty()) console.err << std::string(hint) << "\n";
  return code;
}

Format FormatOf(absl::string_view name) {
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonLines;
  if (name == "csv") return Format::kCsv;
  return Format::kText;
}

const Verb* FindVerb(absl::string_view name) {
  for (const Verb* verb : Verbs()) {
    if (name == verb->name) return verb;
  }
  return nullptr;
}

ExitCode RunVerb(const Verb& verb, const std::vector<std::string>& args, Console& console) {
  const std::unique_ptr<Command> command = verb.make();
  FlagSet flags;
  GlobalFlags global;
  std::string format =
      std::string(absl::string_view(verb.formats).substr(0, absl::string_view(verb.formats).find(' ')));
  bool help = false;
  command->AddFlags(flags);
  AddGlobalFlags(flags, verb, &global, &format, &help);
  if (std::find(args.begin(), args.end(), "--help") != args.end() ||
      std::find(args.begin(), args.end(), "-h") != args.end()) {
    console.out << VerbHelp(verb, flags, console);
    return ExitCode::kDone;
  }
  const std::string hint = absl::StrCat("See varifocal ", verb.name, " --help.");
  if (const absl::Status status = flags.Parse(args); !status.ok()) return Complain(console, status, hint);
  console.format = FormatOf(format);
  global.format = format;
  global.format_given = flags.Seen("format");
  global.daemon_given = flags.Seen("daemon");
  global.command_line = absl::StrCat("varifocal ", verb.name, " ", absl::StrJoin(args, " "));
  const absl::StatusOr<ExitCode> result = command->Run(console, global);
  return result.ok() ? *result : Complain(console, result.status(), hint);
}

ExitCode RunWords(const std::vector<std::string>& args, Console& console) {
  // The verb is the first word that is not a flag; flags before it are global ones, --name=value.
  const auto verb_at =
      std::find_if(args.begin(), args.end(), [](const std::string& a) { return !absl::StartsWith(a, "-"); });
  if (verb_at == args.end()) {
    if (std::find(args.begin(), args.end(), "--version") != args.end()) {
      console.out << "varifocal " << CodeVersion() << "\n";
      return ExitCode::kDone;
    }
    const bool asked = std::find(args.begin(), args.end(), "--help") != args.end() ||
                       std::find(args.begin(), args.end(), "-h") != args.end();
    (asked ? console.out : console.err) << ProgramHelp(console);
    return asked ? ExitCode::kDone : ExitCode::kWrongUsage;
  }
  std::string name = *verb_at;
  std::vector<std::string> rest(args.begin(), verb_at);
  rest.insert(rest.end(), verb_at + 1, args.end());
  if (name == "help") {
    if (rest == std::vector<std::string>{"--all"}) {
      console.out << ProgramHelp(console);
      for (const Verb* verb : Verbs()) {
        console.out << "\n";
        RunVerb(*verb, {"--help"}, console);
      }
      return ExitCode::kDone;
    }
    if (rest.empty()) {
      console.out << ProgramHelp(console);
      return ExitCode::kDone;
    }
    name = rest.front();
    rest = {"--help"};
  }
  const Verb* verb = FindVerb(name);
  if (verb == nullptr) {
    std::vector<std::string> names;
    for (const Verb* known : Verbs()) names.push_back(known->name);
    return Complain(console, UsageError("Unknown verb \"", name, "\"", DidYouMean(name, names)),
                    "See varifocal --help.");
  }
  return RunVerb(*verb, rest, console);
}

}  // namespace

ExitCode RunProgram(const std::vector<std::string>& args, Console& console) {
  const ExitCode code = RunWords(args, console);
  const bool has_failed = !console.out;
  console.out.clear();
  errno = 0;
  if (has_failed) console.out << '\n';  // fails again, for the reason
  console.out.flush();
  if (code != ExitCode::kDone || (!has_failed && console.out)) return code;
  console.err << "varifocal: standard output could not be written"
              << (errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno))) << ".\n";
  return ExitCode::kFailed;
}

}  // namespace varifocal::client
